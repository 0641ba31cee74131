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

// minPIDs is the least that a name space takes as its highest process id.
const minPIDs = 301

// setUpNamespaces makes the name spaces in which this process is the first fit for use:
// its own /proc, its bound on processes, and covers over what is hidden.
func setUpNamespaces(e helperRequest) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Kernels from 6.14 on have it for each name space; Status says whether it holds.
	if os.Getpid() == 1 && ownPIDMax() {
		_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(max(e.Processes, minPIDs))), 0)
	}
	if e.Wall != Landlock {
		return nil
	}
	if !e.Network {
		if err := loopback(); err != nil {
			return fmt.Errorf("bring up the loopback: %w", err)
		}
	}
	if e.ownTemp() {
		if err := unix.Mount(e.Temp, "/tmp", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s as /tmp: %w", e.Temp, err)
		}
	}
	return cover(e.Places)
}

// ownPIDMax reports whether this kernel has a pid_max for each name space. On
// one that does not, to write it would change that of the machine.
func ownPIDMax() bool {
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

// ownTemp reports whether the temporary folder can stand in for /tmp: nothing
// of what is to be seen is there.
func (e helperRequest) ownTemp() bool {
	return !slices.ContainsFunc(e.Places, func(p pathRule) bool { return inside(p.Path, "/tmp") })
}

// cover puts something empty over each hidden place, and what is to be seen
// inside back on it.
func cover(places []pathRule) error {
	for i, p := range places {
		if p.Kind != hidden {
			continue
		}
		if err := coverOne(p.Path, places[i+1:]); err != nil {
			return fmt.Errorf("hide %s: %w", p.Path, err)
		}
	}
	return nil
}

func coverOne(path string, later []pathRule) error {
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
		if l.Kind == hidden || !inside(l.Path, path) {
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
		if err := bindBack(b.fd, b.path); err != nil {
			return err
		}
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// bindBack shows at path what fd is.
func bindBack(fd int, path string) error {
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

// loopback switches on the only interface of a network of one's own.
func loopback() error {
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
