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
	files := []uintptr{0, 1, 2} // of bubblewrap
	defer func() {
		for _, fd := range files[3:] {
			_ = unix.Close(int(fd))
		}
	}()
	pass := func(fd int) string {
		files = append(files, uintptr(fd))
		return strconv.Itoa(len(files) - 1)
	}
	program, err := filterBytes(e.filter())
	if err != nil {
		return 0, err
	}
	filter, err := memoryFile("filter", program)
	if err != nil {
		return 0, err
	}
	options := append(e.bwrapOptions(pass), "--seccomp", pass(filter), "--chdir", e.Dir)
	args, err := memoryFile("arguments", []byte(strings.Join(options, "\x00")+"\x00"))
	if err != nil {
		return 0, err
	}
	argv := append([]string{"bwrap", "--args", pass(args), "--", e.Path}, e.Argv[1:]...)
	return syscall.ForkExec(e.Bwrap, argv, &syscall.ProcAttr{Dir: "/", Files: files, Env: []string{}, Sys: &syscall.SysProcAttr{Setpgid: true}})
}

// openSmall opens a file of /etc to be copied: bubblewrap takes half a millisecond for each
// mount, when there are many. It returns false for others, which are mounted.
func openSmall(p place) (fd int, ok bool) {
	if p.Kind != readable || !isInside(p.Path, "/etc") {
		return -1, false
	}
	var st unix.Stat_t
	if unix.Stat(p.Source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > 1<<20 {
		return -1, false
	}
	fd, err := unix.Open(p.Source, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	return fd, err == nil
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

// bwrapOptions returns the options of bubblewrap. pass makes a descriptor available to it,
// and returns its number there.
func (e helperRequest) bwrapOptions(pass func(fd int) string) []string {
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
		if fd, ok := openSmall(p); ok {
			a = append(a, "--perms", "0444", "--file", pass(fd), p.Path)
			continue
		}
		switch p.Kind {
		case readable:
			a = append(a, "--ro-bind-try", p.Source, p.Path)
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
	return append(a, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
}
