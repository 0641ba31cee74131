// Package crashtest kills the real daemon repeatedly under load and checks, in the records
// of the simulated platforms, what users saw. It also kills the parts of the daemon in a
// synctest bubble, at each point of their work and at random ones, with faults of the
// platform and of the model. The package contains tests only.
package crashtest
