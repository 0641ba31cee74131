package cmdpolicy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"hermesd/agent/protected"
)

// read judges that a file is read, and returns what is known of its text.
func (j *evaluator) read(name string) text {
	for _, p := range j.resolve(name) {
		if secret(p) {
			j.hit("secrets", "read", p)
		}
		if j.owned(p) && !j.place.isReadable(p) {
			j.hit("own-home", "read", p)
		}
		if strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/") {
			j.hit("remote", "shell", p)
			return text{kind: anything, net: true}
		}
		if t, ok := j.files[p]; ok {
			return t
		}
	}
	return text{kind: anything}
}

// write judges that a file is written or made.
func (j *evaluator) write(program, name string) {
	for _, p := range j.resolve(name) {
		if strings.HasPrefix(p, unknown) {
			j.hit("unknown-target", program, "")
		}
		j.change(program, p)
	}
}

// disk matches the devices that hold what the machine holds.
var disk = regexp.MustCompile(`^/dev/(r?disk|[shv]d|xvd|nvme|mmcblk|dm-|md|loop|mapper/|mem$|kmem$|port$|nbd|sr|vd|zvol|ram|block/|disk/|bus/)`)

// vital are files without which nobody gets in or nothing starts.
var vital = []string{
	"/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/group", "/etc/sudoers", "/etc/ld.so.preload", "/proc/sysrq-trigger", "/proc/kcore",
	"/etc/master.passwd", "/etc/inittab",
}

// change judges that what stands at a resolved path changes.
func (j *evaluator) change(program, p string) {
	switch {
	case harmless(p):
		return
	case disk.MatchString(p), patternOf(p, "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/mem"):
		j.hit("write-device", program, "")
	case slices.Contains(vital, p), patternOf(p, vital...), under(p, "/boot"), under(p, "/etc/sudoers.d"), under(p, "/sys/firmware"):
		j.hit("overwrite-system", program, "")
	case strings.HasPrefix(p, "/dev/tcp/"), strings.HasPrefix(p, "/dev/udp/"):
		j.hit("remote", "shell", p)
	case j.owned(p):
		j.hit("own-home", program, "")
	case j.startup(p):
		j.hit("write-startup", program, p)
	case j.place.instructs != nil && j.place.instructs(p):
		j.hit("write-instructions", program, p)
	case secret(p):
		j.hit("secrets", program, p)
	case classifyPath(p) != elsewhere && classifyPath(p) != homeRoot:
		j.hit("write-system", program, p)
	}
}

func harmless(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/") || strings.HasPrefix(p, "/dev/pts/") || strings.HasPrefix(p, "/dev/shm/") || strings.HasPrefix(p, "/proc/self/fd/")
}

// patternOf reports whether p is a pattern that may stand for one of names. One
// that is only known to begin like them is not.
func patternOf(p string, names ...string) bool {
	if !strings.ContainsAny(p, string([]rune{many, one})) || strings.ContainsRune(p, hole) {
		return false
	}
	return slices.ContainsFunc(names, func(n string) bool { return matches(p, n) })
}

// startup reports whether what changes at p runs by itself later, or lets people
// in.
func (j *evaluator) startup(p string) bool {
	return protected.Path(p) != "" || !isAnchored(p) && protected.Path(j.place.absolute(p)) != ""
}

// keyFile matches the names of files that hold passwords or private keys.
var keyFile = regexp.MustCompile(`(?i)^(\.env(\..*)?|.*\.env|id_(rsa|dsa|ecdsa|ed25519)(_sk)?|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.npmrc|\.pypirc|` +
	`credentials(\.json|\.ya?ml|\.toml)?|secrets?\.(json|ya?ml|toml|env)|.*\.(pem|p12|pfx|kdbx|keystore|jks)|\.htpasswd|\.vault-token|shadow|gshadow|` +
	`service[-_]account.*\.json|authorized_keys|login\.keychain.*|cookies\.sqlite|logins\.json|key4\.db)$`)

// secret reports whether p holds passwords or keys.
func secret(p string) bool {
	b := path.Base(p)
	if strings.ContainsAny(b, string([]rune{many, one})) {
		for _, n := range []string{".env", "id_rsa", "id_ed25519", ".netrc", "shadow", "credentials"} {
			dots := strings.HasPrefix(b, ".") == strings.HasPrefix(n, ".") // a * does not mean hidden files
			if dots && strings.Trim(b, string([]rune{many, one, '.'})) != "" && matches(b, n) && !strings.HasPrefix(b, unknown) {
				return true
			}
		}
	}
	switch {
	case strings.HasSuffix(b, ".example"), strings.HasSuffix(b, ".sample"), strings.HasSuffix(b, ".template"), strings.HasSuffix(b, ".pub"):
		return false
	case keyFile.MatchString(b):
		return b != "shadow" || strings.HasPrefix(p, "/etc")
	}
	for _, dir := range []string{"~/.ssh", "~/.aws", "~/.gnupg", "~/.kube", "~/.docker/config.json", "~/.config/gh", "~/.config/gcloud", "~/.azure", "~/.password-store", "~/.local/share/keyrings", "/etc/ssl/private"} {
		if under(p, dir) && !strings.HasSuffix(p, "known_hosts") {
			return true
		}
	}
	return strings.HasPrefix(p, "/proc/") && b == "environ"
}

// ownedName reports whether p belongs to a daemon in one of its usual places.
func ownedName(p string) bool {
	for _, dir := range []string{"~/.hermes", "~/.hermesd", "~/.config/hermesd", "/etc/hermesd", "/var/lib/hermesd", unknown + "/.hermes"} {
		if under(p, dir) {
			return true
		}
	}
	return strings.Contains(p, "/.hermes/") || under(p, ".hermes") || strings.HasSuffix(p, "/SOUL.md") || p == "SOUL.md"
}

// talkers are programs whose operands are not files that they read or change.
var talkers = []string{"echo", "printf", "test", "[", "[[", "true", "false", "grep", "egrep", "fgrep", "rg", "ls", "stat", "which", "type", "mkdir", "basename", "dirname", "git", "ag"}

// touched judges the files that a program was given, whatever it does to them.
func (j *evaluator) touched(c call) {
	for i, a := range c.args {
		n, v, ok := strings.Cut(a, "=")
		if !ok && i+1 < len(c.args) {
			v = c.args[i+1]
		}
		if slices.Contains([]string{"-o", "-out", "--output", "--out", "--outfile", "--output-file", "--log-file"}, n) && v != "" && !strings.HasPrefix(v, unknown) {
			j.write(c.name, v)
		}
	}
	if slices.Contains(talkers, c.name) {
		if slices.Contains([]string{"grep", "egrep", "fgrep", "rg", "ag"}, c.name) {
			j.searched(c)
		}
		return
	}
	for _, a := range c.args {
		if disk.MatchString(a) {
			j.hit("disk", c.name, a)
		}
		if v, ok := strings.CutPrefix(a, "-"); ok {
			_, a, ok = strings.Cut(v, "=")
			if !ok {
				continue
			}
		}
		for _, p := range j.resolve(a) {
			switch {
			case secret(p):
				j.hit("secrets", c.name, p)
			case j.owned(p) && !j.place.isReadable(p):
				j.hit("own-home", c.name, "")
			}
		}
	}
}

// searched judges the files that grep reads: all operands but the pattern.
func (j *evaluator) searched(c call) {
	o, rest := parse(c.args, "e f m A B C include exclude exclude-dir g t regexp file max-count glob type", false)
	if !o.any("e", "f", "regexp", "file") && len(rest) > 0 {
		rest = rest[1:]
	}
	for _, n := range []string{"f", "file"} {
		if v, ok := o.get(n); ok {
			rest = append(rest, v)
		}
	}
	for _, a := range rest {
		j.read(a)
	}
}
