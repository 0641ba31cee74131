package backup

import (
	"context"
	"errors"
	"time"

	"hermesd/storage"
)

// RestoreWith is Restore with a different rename function.
func RestoreWith(ctx context.Context, home, archive string, rename func(from, to string) error) error {
	h, err := storage.Open(home)
	if err != nil {
		return err
	}
	_, err = restore(ctx, h, archive, time.Now(), rename)
	return errors.Join(err, h.Close())
}
