package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// minPIDs is the minimum value of pid_max in a namespace.
const minPIDs = 301

// The sizes of file systems in memory, in bytes: of those that a command can write to, and
// of those that cover hidden directories.
const (
	scratchSize = 64 << 20
	coverSize   = 1 << 20
)

// baseFlags apply to all mounts in a new root but those of devices.
const baseFlags = unix.MS_NOSUID | unix.MS_NODEV

// enterRoot gives this process, the first one of its namespaces, a root directory that
// contains only the places of e, a private /dev and a fresh /proc.
func enterRoot(e helperRequest) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	r, err := openSources(e.Places)
	if err != nil {
		return err
	}
	if r.base, err = mountBase(); err != nil {
		return err
	}
	for i := range e.Places {
		if err := r.attach(e.Places[i], i); err != nil {
			return fmt.Errorf("show %s: %w", e.Places[i].Path, err)
		}
	}
	if err := r.mountDevices(); err != nil {
		return err
	}
	if err := r.mountProc(e); err != nil {
		return err
	}
	for _, path := range append(r.covers, "/dev", "/") {
		if err := setMountFlags(unix.AT_FDCWD, r.base+path, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	if err := os.Chdir(r.base); err != nil {
		return err
	}
	// The old root is mounted above the new one for a moment, and then detached.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	return os.Chdir("/")
}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// A newRoot is a root directory that is being built.
type newRoot struct {
	base    string
	trees   []int           // detached mounts of the places, -1 for those without a source
	devices []int           // of the devices
	dirs    map[string]bool // hidden directories that are in no place with a source
	covers  []string        // hidden directories, to be made read-only at the end
}

// openSources opens everything that will be shown, before any of it is covered.
func openSources(places []place) (*newRoot, error) {
	r := &newRoot{dirs: map[string]bool{}}
	for i, p := range places {
		fd := -1
		var err error
		switch p.Kind {
		case readable:
			fd, err = cloneMount(p.Source, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		case writable:
			fd, err = cloneMount(p.Source, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		case hidden:
			info, statErr := os.Lstat(p.Path)
			r.dirs[p.Path] = statErr == nil && info.IsDir() && !isVisible(places[:i], p.Path)
		}
		if errors.Is(err, unix.ENOENT) && p.Kind == readable {
			fd, err = -1, nil // it has been removed since the places were determined
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", p.Source, err)
		}
		r.trees = append(r.trees, fd)
	}
	for _, name := range devices {
		fd, err := cloneMount("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return nil, fmt.Errorf("open /dev/%s: %w", name, err)
		}
		r.devices = append(r.devices, fd)
	}
	return r, nil
}

// cloneMount returns a detached copy of the mounts at path, which must not contain
// symbolic links: a command that runs at the same time may try to put one there.
func cloneMount(path string, flags uint64) (int, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if err := setMountFlags(fd, "", flags, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE); err != nil {
		return -1, err
	}
	return fd, nil
}

func setMountFlags(dir int, path string, flags uint64, how uint) error {
	if err := unix.MountSetattr(dir, path, how, &unix.MountAttr{Attr_set: flags}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// mountBase mounts the new root where it can be moved away from.
func mountBase() (string, error) {
	for _, dir := range []string{"/tmp", "/run", "/mnt", "/var"} {
		err := unix.Mount("tmpfs", dir, "tmpfs", baseFlags, "mode=755,size=4m,nr_inodes=8192")
		if err == nil || !errors.Is(err, unix.ENOENT) {
			return dir, err
		}
	}
	return "", errors.New("there is no directory at which a root can be mounted")
}

func (r *newRoot) attach(p place, i int) error {
	at := r.base + p.Path
	switch p.Kind {
	case link:
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		return os.Symlink(p.Source, at)
	case scratch:
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		return unix.Mount("tmpfs", at, "tmpfs", baseFlags, fmt.Sprintf("mode=1777,size=%d", scratchSize))
	case hidden:
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, os.ErrNotExist) && !r.dirs[p.Path]:
			return nil
		case errors.Is(err, os.ErrNotExist): // in a scratch directory, or nothing around it is seen
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			fd, err := cloneMount("/dev/null", unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return moveMount(fd, at)
		}
		r.covers = append(r.covers, p.Path)
		return unix.Mount("tmpfs", at, "tmpfs", baseFlags, fmt.Sprintf("mode=755,size=%d", coverSize))
	}
	if r.trees[i] < 0 {
		return nil
	}
	return r.attachTree(r.trees[i], at)
}

// attachTree mounts a detached copy, for which it creates an empty file or directory if
// there is none.
func (r *newRoot) attachTree(fd int, at string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	} else if err := createFile(at); err != nil {
		return err
	}
	return moveMount(fd, at)
}

func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(path, unix.S_IFREG|0o644, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func moveMount(fd int, at string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

func (r *newRoot) mountDevices() error {
	dev := r.base + "/dev"
	if err := os.MkdirAll(dev, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=1m,nr_inodes=128"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for i, fd := range r.devices {
		if err := r.attachTree(fd, dev+"/"+devices[i]); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", devices[i], err)
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := os.Mkdir(dev+"/"+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := unix.Mount("tmpfs", dev+"/shm", "tmpfs", baseFlags, fmt.Sprintf("mode=1777,size=%d", scratchSize)); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, dev+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts a /proc of the processes of this namespace. It is read-only: through it
// root changes the settings of the machine.
func (r *newRoot) mountProc(e helperRequest) error {
	proc := r.base + "/proc"
	if err := os.MkdirAll(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", baseFlags|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	limitProcesses(proc, e.Processes)
	return setMountFlags(unix.AT_FDCWD, proc, unix.MOUNT_ATTR_RDONLY, 0)
}

// limitProcesses sets pid_max of this namespace, which kernels from 6.14 on have;
// Status reports whether it applies. On other kernels writing it would change the value of
// the whole machine.
func limitProcesses(proc string, most int) {
	if os.Getpid() == 1 && hasOwnPIDMax() {
		_ = os.WriteFile(proc+"/sys/kernel/pid_max", []byte(strconv.Itoa(max(most, minPIDs))), 0)
	}
}

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

// enterPIDNamespace prepares the namespaces around bubblewrap, which makes a root of its
// own: they exist for the limit of processes.
func enterPIDNamespace(e helperRequest) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", baseFlags|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	limitProcesses("/proc", e.Processes)
	return nil
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
