// Package crashtest kills the real daemon under load, again and again, and has
// the ledger of the simulated platform judge what people saw.
package crashtest
