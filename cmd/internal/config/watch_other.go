//go:build !linux

package config

import (
	"errors"
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// watchDirs returns a channel with the paths of the files in dirs that are touched; "" if
// some may be missing. The channel is closed by stop, and if watching fails.
func watchDirs(dirs []string) (touched <-chan string, stop func(), err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		if err := w.Add(dir); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", dir, err), w.Close())
		}
	}
	names, done := make(chan string), make(chan struct{})
	go func() { // ends with the watcher
		defer close(names)
		for {
			name := ""
			select {
			case e, ok := <-w.Events:
				if name = e.Name; !ok {
					return
				}
			case err := <-w.Errors:
				if !errors.Is(err, fsnotify.ErrEventOverflow) { // else events were lost
					return
				}
			}
			select {
			case names <- name:
			case <-done:
				return
			}
		}
	}()
	return names, func() { close(done); _ = w.Close() }, nil // nothing was written
}
