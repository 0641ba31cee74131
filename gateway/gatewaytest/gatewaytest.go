// Package gatewaytest builds gateways for tests from one plain struct, as the daemon
// builds them from its configuration.
package gatewaytest

import "hermesd/gateway"

// Options configure a Gateway for tests.
type Options = gateway.Options

// A Gateway is a gateway with all of its parts.
type Gateway = gateway.Gateway

// New returns a Gateway. It opens nothing, and runs nothing before Start.
func New(o Options) *Gateway { return gateway.New(o) }
