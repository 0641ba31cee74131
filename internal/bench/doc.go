// Package bench measures the real daemon, as a separate process, with simulated platforms
// and models. `make bench` runs each benchmark once; the results are in
// docs/benchmarks.md. The package contains tests only.
package bench
