// Package crashtest kills the real daemon under load, again and again, and has
// the ledger of the simulated platform judge what people saw. The daemon's parts
// also die in a bubble of virtual time, at each point of their work in turn and
// at random ones, under faults of the platform and of the model.
package crashtest
