package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// minPIDs is the minimum value of pid_max in a namespace.
const minPIDs = 301

// setUpNamespaces sets up the namespaces of which this process is the first one: its own
// /proc, the process limit, and mounts over the hidden paths.
func setUpNamespaces(e helperRequest) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Kernels from 6.14 on have pid_max per namespace; Status reports whether it applies.
	if os.Getpid() == 1 && hasOwnPIDMax() {
		_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(max(e.Processes, minPIDs))), 0)
	}
	if e.Wall != Landlock {
		return nil
	}
	if !e.Network {
		if err := enableLoopback(); err != nil {
			return fmt.Errorf("bring up the loopback: %w", err)
		}
	}
	if e.hasOwnTemp() {
		if err := unix.Mount(e.Temp, "/tmp", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s as /tmp: %w", e.Temp, err)
		}
	}
	return hideAll(e.Places)
}

// hasOwnPIDMax reports whether this kernel has pid_max per namespace. On other kernels
// writing it would change the value of the whole machine.
func hasOwnPIDMax() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 6 || major == 6 && minor >= 14
}

// hasOwnTemp reports whether the temporary directory can be mounted as /tmp: no visible
// path is in /tmp.
func (e helperRequest) hasOwnTemp() bool {
	return !slices.ContainsFunc(e.Places, func(p pathRule) bool { return isInside(p.Path, "/tmp") })
}

// hideAll mounts something empty over each hidden path, and mounts the visible paths
// inside it again.
func hideAll(places []pathRule) error {
	for i, p := range places {
		if p.Kind != hidden {
			continue
		}
		if err := hide(p.Path, places[i+1:]); err != nil {
			return fmt.Errorf("hide %s: %w", p.Path, err)
		}
	}
	return nil
}

func hide(path string, later []pathRule) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
	}
	type shown struct {
		path string
		fd   int
	}
	var back []shown
	for _, l := range later {
		if l.Kind == hidden || !isInside(l.Path, path) {
			continue
		}
		fd, err := unix.Open(l.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		back = append(back, shown{l.Path, fd})
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return err
	}
	for _, b := range back {
		if err := bindOver(b.fd, b.path); err != nil {
			return err
		}
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// bindOver mounts the file or directory fd at path.
func bindOver(fd int, path string) error {
	self := "/proc/self/fd/" + strconv.Itoa(fd)
	info, err := os.Stat(self)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if info.IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return unix.Mount(self, path, "", unix.MS_BIND|unix.MS_REC, "")
}

// enableLoopback enables the only interface of the network namespace.
func enableLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
