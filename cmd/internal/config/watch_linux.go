package config

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// touches are the events after which the content of a file may differ. A write counts when
// the file is closed: the store, which stays open, writes many pages for each message, and
// IN_MODIFY would wake the daemon for each of them.
const touches = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_ONLYDIR

// watchDirs returns a channel with the paths of the files in dirs that are touched; "" if
// some may be missing. The channel is closed by stop, and if watching fails.
func watchDirs(dirs []string) (touched <-chan string, stop func(), err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	watched := make(map[int32]string) // by watch descriptor
	for _, dir := range dirs {
		wd, err := unix.InotifyAddWatch(fd, dir, touches)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", dir, err), f.Close())
		}
		watched[int32(wd)] = dir
	}
	names, done := make(chan string), make(chan struct{})
	go func() { // ends when f is closed
		defer close(names)
		for buf := make([]byte, 4096); ; {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			for event := buf[:n]; len(event) >= unix.SizeofInotifyEvent; {
				wd, size := int32(binary.NativeEndian.Uint32(event)), binary.NativeEndian.Uint32(event[12:])
				name := event[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size]
				event = event[unix.SizeofInotifyEvent+size:]
				path := ""
				if dir, ok := watched[wd]; ok { // else events were lost
					path = filepath.Join(dir, string(bytes.TrimRight(name, "\x00")))
				}
				select {
				case names <- path:
				case <-done:
					return
				}
			}
		}
	}()
	return names, func() { close(done); _ = f.Close() }, nil // nothing was written
}
