// Package bench measures the real daemon, as a process of its own, under the
// simulators. Its benchmarks are run once each, by `make bench`; the figures
// stand in docs/benchmarks.md.
package bench
