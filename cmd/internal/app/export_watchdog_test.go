package app

import "time"

// A Beat is one call of watchdog.check, some time after the first.
type Beat struct {
	Ready, Running int
	After          time.Duration
}

// Beats passes all beats to a new watchdog and returns the last result.
func Beats(t0 time.Time, beats []Beat) error {
	var p watchdog
	var err error
	for _, b := range beats {
		err = p.check(b.Ready, b.Running, t0.Add(b.After))
	}
	return err
}
