//go:build !linux

package spawn_test

func runAttacks(string) int { return 1 }
