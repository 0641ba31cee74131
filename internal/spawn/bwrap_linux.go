package spawn

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bwrapPaths are where bubblewrap is looked for. PATH is not used: it may name a directory
// to which commands can write.
var bwrapPaths = []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap", "/run/wrappers/bin/bwrap"}

// findBwrap returns the path of bubblewrap. Only a file that nobody but root can change
// is used.
func findBwrap() (string, error) {
	for _, path := range bwrapPaths {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			continue
		}
		if st.Uid != 0 || st.Mode&0o022 != 0 {
			return "", fmt.Errorf("%s can be changed by others than root, and is not used", path)
		}
		return path, nil
	}
	return "", errors.New("bubblewrap is not installed")
}

// startBwrap starts bubblewrap. Its environment is empty, because variables could make it
// load libraries outside of the sandbox; the arguments, which contain the environment of
// the command, are passed in memory.
func (e helperRequest) startBwrap() (pid int, err error) {
	const filterFD, argsFD = 3, 4
	program, err := filterBytes(e.filter())
	if err != nil {
		return 0, err
	}
	filter, err := memoryFile("filter", program)
	if err != nil {
		return 0, err
	}
	defer unix.Close(filter)
	options := strings.Join(e.bwrapOptions(filterFD), "\x00") + "\x00"
	args, err := memoryFile("arguments", []byte(options))
	if err != nil {
		return 0, err
	}
	defer unix.Close(args)
	argv := append([]string{"bwrap", "--args", strconv.Itoa(argsFD), "--", e.Path}, e.Argv[1:]...)
	return syscall.ForkExec(e.Bwrap, argv, &syscall.ProcAttr{
		Dir: "/", Files: []uintptr{0, 1, 2, uintptr(filter), uintptr(args)}, Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// memoryFile returns the descriptor of a file in memory, at its beginning.
func memoryFile(name string, data []byte) (int, error) {
	fd, err := unix.MemfdCreate("hermesd-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	for done := 0; done < len(data); {
		n, err := unix.Pwrite(fd, data[done:], int64(done))
		if err != nil {
			return -1, err
		}
		done += n
	}
	return fd, nil
}

// bwrapOptions returns the options of bubblewrap.
func (e helperRequest) bwrapOptions(filterFD int) []string {
	a := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"}
	if os.Getuid() == 0 {
		a = append(a, "--cap-drop", "ALL")
		for c := range e.keptCapabilities() {
			a = append(a, "--cap-add", c)
		}
	}
	if !e.Network {
		a = append(a, "--unshare-net")
	}
	for _, kv := range e.Env {
		name, value, _ := strings.Cut(kv, "=")
		a = append(a, "--setenv", name, value)
	}
	var covers []string
	for _, p := range e.Places {
		switch p.Kind {
		case readable:
			a = append(a, "--ro-bind", p.Source, p.Path)
		case writable:
			a = append(a, "--bind", p.Source, p.Path)
		case link:
			a = append(a, "--symlink", p.Source, p.Path)
		case scratch:
			a = append(a, "--perms", "1777", "--size", strconv.Itoa(scratchSize), "--tmpfs", p.Path)
		case hidden:
			if info, err := os.Lstat(p.Path); err != nil {
				continue
			} else if !info.IsDir() {
				a = append(a, "--ro-bind", "/dev/null", p.Path)
				continue
			}
			a = append(a, "--size", strconv.Itoa(coverSize), "--tmpfs", p.Path)
			covers = append(covers, "--remount-ro", p.Path)
		}
	}
	a = append(a, "--dev", "/dev", "--perms", "1777", "--size", strconv.Itoa(scratchSize), "--tmpfs", "/dev/shm", "--proc", "/proc")
	a = append(a, covers...)
	return append(a, "--remount-ro", "/dev", "--remount-ro", "/", "--seccomp", strconv.Itoa(filterFD), "--chdir", e.Dir)
}
