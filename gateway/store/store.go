// Package store defines the ports of the store, one for each kind of reader, and what
// their methods take and return. storage/bolt implements all of them in one type, so the
// names of their methods differ; storage/storagetest is the suite that a store must pass.
//
// When a method returns without an error its change is on disk; after an error nothing
// has changed, and the store stays usable. All methods may be called from any goroutine.
package store
