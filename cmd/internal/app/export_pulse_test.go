package app

import "time"

// A Beat is what a pulse is told, some time after the first.
type Beat struct {
	Ready, Running int
	After          time.Duration
}

// Beats tells a new pulse all of them and returns what the last one comes to.
func Beats(t0 time.Time, beats []Beat) error {
	var p watchdog
	var err error
	for _, b := range beats {
		err = p.check(b.Ready, b.Running, t0.Add(b.After))
	}
	return err
}
