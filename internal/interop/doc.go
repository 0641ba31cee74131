// Package interop lets the official SDKs judge this program's wire: they must
// be able to read our requests, to work with our simulated services, and to
// make the same of a stream as our parsers do. It holds tests only.
package interop
