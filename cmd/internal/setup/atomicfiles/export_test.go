package atomicfiles

import "errors"

// ErrKilled simulates a crash of the process.
var ErrKilled = errors.New("killed")

// WriteUntil is Write that fails with ErrKilled at rename n, counted from 1.
func WriteUntil(home string, n int, files ...File) error {
	return write(home, files, func(from, to string) error {
		if n--; n <= 0 {
			return ErrKilled
		}
		return rename(from, to)
	})
}
