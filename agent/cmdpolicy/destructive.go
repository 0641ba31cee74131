package cmdpolicy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// deleting judges programs that delete.
func deleting(j *evaluator, c call) (text, bool) {
	o, rest := parse(c.args, "n s iterations size", false)
	switch c.name {
	case "rm", "grm", "srm", "wipe":
		whole := o.any("r", "R", "recursive") || c.name == "wipe"
		if o.any("no-preserve-root") {
			j.hit("delete-root", c.name, "")
		}
		for k := range o { // an option that is not known may be -r
			whole = whole || strings.ContainsRune(k, hole)
		}
		if slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, unknown) }) && len(rest) > 1 {
			whole = true
		}
		for _, p := range rest {
			j.remove(c.name, p, whole)
		}
	case "unlink", "rmdir", "trash", "trash-put", "gio":
		for _, p := range rest {
			j.remove(c.name, p, strings.HasPrefix(c.name, "trash"))
		}
	case "shred", "truncate":
		if c.name == "shred" {
			j.hit("destroy", c.name, strings.Join(rest, " "))
		}
		for _, p := range rest {
			j.write(c.name, p)
		}
	case "rimraf", "del-cli":
		for _, p := range rest {
			j.remove(c.name, p, true)
		}
	default:
		return text{}, false
	}
	return handled()
}

// copying judges programs that write to files which their arguments name.
func copying(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "cp", "mv", "install", "ln", "gcp", "gmv", "link":
		o, rest := parse(c.args, "t S g o m target-directory suffix mode owner group", false)
		to, ok := o.get("t")
		if !ok {
			to, ok = o.get("target-directory")
		}
		if !ok && len(rest) > 1 {
			to, rest = rest[len(rest)-1], rest[:len(rest)-1]
		}
		if to != "" {
			j.written1(c.name, to, rest)
		}
		for _, f := range rest {
			if c.name == "mv" || c.name == "gmv" {
				j.moved(f)
			} else {
				j.read(f)
			}
		}
	case "dd", "gdd", "dcfldd":
		for _, a := range c.args {
			if f, ok := strings.CutPrefix(a, "of="); ok {
				j.write("dd", f)
			}
			if f, ok := strings.CutPrefix(a, "if="); ok {
				j.read(f)
			}
		}
	case "tee", "sponge":
		_, rest := parse(c.args, "", false)
		for _, f := range rest {
			j.write(c.name, f)
			for _, p := range j.resolve(f) {
				j.files[p] = j.files[p].join(c.stdin)
			}
		}
		return c.stdin, true
	case "touch", "mkfifo", "mknod", "split", "fallocate", "patch", "gzip", "gunzip", "xz", "bzip2", "zstd", "unzip", "tar-split", "chattr", "setfacl", "setcap":
		if c.name == "setcap" {
			j.hit("open-permissions", c.name, strings.Join(c.args, " "))
		}
		_, rest := parse(c.args, "d", false)
		for _, f := range append(rest, valueOf(c.args, "-d")) {
			j.write(c.name, f)
		}
	default:
		return text{}, false
	}
	return handled()
}

// written1 judges the target of a copy, and what it is called there.
func (j *evaluator) written1(program, to string, from []string) {
	j.write(program, to)
	for _, f := range from {
		j.copied(f, to)
		if i := strings.LastIndexByte(f, '/'); i >= 0 {
			f = f[i+1:]
		}
		if t := strings.TrimSuffix(to, "/"); !strings.ContainsRune(f, hole) {
			j.write(program, t+"/"+f)
		}
	}
}

// copied notes that a program, or a file of the script, has another name now.
func (j *evaluator) copied(from, to string) {
	for _, p := range j.resolve(from) {
		t, ok := j.files[p]
		if b := base(p); !ok && (slices.Contains(grave, b) || slices.Contains(perTarget, b)) && strings.HasPrefix(p, "/") {
			t, ok = text{s: b + ` "$@"`, kind: known}, true
		}
		if !ok {
			continue
		}
		for _, q := range append(j.resolve(to), j.resolve(to+"/"+p[strings.LastIndexByte(p, '/')+1:])...) {
			j.files[q] = t
		}
	}
}

// moved judges that a file is no longer where it was.
func (j *evaluator) moved(f string) {
	for _, p := range j.resolve(f) {
		switch classifyPath(p) {
		case systemRoot:
			j.hit("delete-root", "mv", "")
		case homeRoot:
			j.hit("delete-home", "mv", "")
		default:
			j.change("mv", p)
		}
	}
}

// valueOf returns the argument behind an option.
func valueOf(args []string, option string) string {
	if i := slices.Index(args, option); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

var symbolic = regexp.MustCompile(`(^|,)([ugoa]*[oa][ugoa]*[+=][rxXst]*w|[ugoa]*[+=][rwxXt]*s|[ugoa]*[oa][ugoa]*=[ugo]*u)`)

// permissions judges chmod, chown and their like.
func permissions(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "chmod", "chown", "chgrp", "gchmod", "gchown", "lchown":
	default:
		return text{}, false
	}
	var o options
	args := slices.Clone(c.args)
	for i, a := range args { // chmod -x is a mode
		if strings.HasPrefix(a, "-") && c.name == "chmod" && strings.Trim(a, "-rwxXst") == "" {
			args[i] = "u" + a
		}
	}
	o, rest := parse(args, "from reference", false)
	if len(rest) == 0 {
		return handled()
	}
	mode, targets := rest[0], rest[1:]
	if o.any("reference") {
		targets = rest
	}
	all := o.any("R", "recursive")
	if c.name == "chmod" && open(mode) {
		j.hit("open-permissions", c.name, strings.Join(rest, " "))
	}
	if c.name != "chmod" && all {
		j.hit("owner", c.name, strings.Join(rest, " "))
	}
	for _, t := range targets {
		for _, p := range j.resolve(t) {
			at := classifyPath(p)
			switch {
			case (at == systemRoot || at == homeRoot) && all, at == systemRoot && open(mode):
				j.hit("system-permissions", c.name, "")
			default:
				j.change(c.name, p)
			}
		}
	}
	return handled()
}

// open reports whether a mode lets everybody write, or lends rights.
func open(mode string) bool {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
		return n&0o002 != 0 && n&0o1000 == 0 || n&0o6000 != 0
	}
	return strings.ContainsRune(mode, hole) || symbolic.MatchString(mode)
}

// diskTools judges programs that change disks.
func diskTools(j *evaluator, c call) (text, bool) {
	look := slices.ContainsFunc(c.args, func(a string) bool {
		return slices.Contains([]string{"-l", "--list", "--help", "-h", "--version", "-V", "print", "list", "info"}, a)
	})
	switch {
	case strings.HasPrefix(c.name, "mkfs"), strings.HasPrefix(c.name, "newfs"), slices.Contains([]string{
		"mke2fs", "mkswap", "wipefs", "blkdiscard", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "badblocks", "hdparm", "mdadm",
		"pvcreate", "pvremove", "vgremove", "lvremove", "zpool", "format", "diskpart", "nvme", "cryptsetup", "mkdosfs",
	}, c.name):
		if !look && len(c.args) > 0 {
			j.hit("format", c.name, "")
		}
	case c.name == "diskutil":
		if len(c.args) > 0 && (strings.HasPrefix(strings.ToLower(c.args[0]), "erase") || strings.HasPrefix(c.args[0], "partition") || c.args[0] == "zeroDisk") {
			j.hit("format", c.name, "")
		}
	case slices.Contains([]string{"mount", "umount", "losetup", "swapoff", "swapon", "fsck", "e2fsck", "tune2fs", "resize2fs", "lvcreate", "quotaoff"}, c.name):
		if len(c.args) > 0 && !look {
			j.hit("disk", c.name, strings.Join(c.args, " "))
		}
	default:
		return text{}, false
	}
	return handled()
}

// powerTools judges programs that end the machine's work, or change its kernel.
func powerTools(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "shutdown", "reboot", "poweroff", "halt":
		if !slices.Contains(c.args, "--help") {
			j.hit("power", c.name, "")
		}
	case "init", "telinit":
		if len(c.args) > 0 && slices.Contains([]string{"0", "1", "6", "s", "S", "q"}, c.args[0]) {
			j.hit("power", c.name, "")
		}
	case "insmod", "modprobe", "rmmod", "kexec", "kmod", "kldload", "kldunload", "kextload", "kextunload", "depmod":
		if len(c.args) > 0 && c.args[0] != "list" && c.args[0] != "--version" {
			j.hit("kernel", c.name, "")
		}
	case "sysctl":
		if slices.ContainsFunc(c.args, func(a string) bool { return a == "-w" || a == "-p" || strings.Contains(a, "=") }) {
			j.hit("write-system", c.name, strings.Join(c.args, " "))
		}
	default:
		return text{}, false
	}
	return handled()
}

// processes judges programs that end others.
func processes(j *evaluator, c call) (text, bool) {
	joined := strings.Join(c.args, " ")
	switch c.name {
	case "kill":
		j.kill(c.args, joined)
	case "killall5":
		j.hit("kill-all", c.name, "")
	case "pkill", "killall", "xkill", "skill", "slay":
		_, rest := parse(c.args, "s u U G g t P o y signal uid", false)
		for _, n := range rest {
			switch {
			case slices.Contains([]string{".", ".*", "", string(many), "init", "systemd", "launchd", "systemd-journald", "dbus-daemon", "sshd"}, base(n)) || n == ".":
				j.hit("kill-all", c.name, "")
			case strings.Contains(n, "hermes"):
				j.hit("own-daemon", c.name, "")
			}
		}
		j.hit("kill", c.name, joined)
	case "fuser":
		if o, _ := parse(c.args, "n", false); o.any("k", "kill") {
			j.hit("kill", c.name, joined)
		}
	default:
		return text{}, false
	}
	return handled()
}

func (j *evaluator) kill(args []string, joined string) {
	if len(args) > 0 && (args[0] == "-l" || args[0] == "-L" || args[0] == "-0" || args[0] == "--list") {
		return
	}
	j.hit("kill", "kill", joined)
	skip := false
	for i, a := range args {
		switch {
		case skip:
			skip = false
		case a == "-s" || a == "-n" || a == "--signal":
			skip = true
		case a == "-1" && (i > 0 || len(args) == 1), a == "1", a == "0" && i > 0:
			j.hit("kill-all", "kill", "")
		}
	}
}
