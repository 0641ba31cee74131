package cmdpolicy

import (
	"slices"
	"strings"
)

// A wrapper is a program that runs the program that its arguments name.
type wrapper struct {
	valued   string // options that take a value
	operands int    // operands ahead of the program
	assigns  bool   // NAME=value may stand ahead of the program
	rule     string // what it is by itself
	script   bool   // its operands are joined and given to a shell
}

// wrappers never changes.
var wrappers = map[string]wrapper{
	"builtin": {}, "nohup": {}, "setsid": {}, "command": {}, "noglob": {}, "nocorrect": {}, "exec": {valued: "a"},
	"env":  {valued: "u C S unset chdir split-string", assigns: true},
	"nice": {valued: "n adjustment"}, "ionice": {valued: "c n p class classdata"}, "stdbuf": {valued: "i o e input output error"},
	"time": {valued: "f o format output"}, "timeout": {valued: "s k signal kill-after", operands: 1},
	"gtimeout": {valued: "s k signal kill-after", operands: 1}, "chrt": {operands: 1, valued: "T P D"}, "taskset": {operands: 1},
	"sudo": {valued: "u g p C h r t T U D R user group prompt host chdir chroot close-from role type", assigns: true, rule: "root"},
	"doas": {valued: "u C", rule: "root"}, "pkexec": {valued: "user", rule: "root"}, "gosu": {operands: 1, rule: "root"}, "su-exec": {operands: 1, rule: "root"},
	"setpriv": {valued: "reuid regid groups", rule: "root"}, "run0": {valued: "u g", rule: "root"}, "sg": {operands: 1, rule: "root", script: true},
	"chroot": {operands: 1, valued: "userspec groups", rule: "container"}, "unshare": {rule: "container"},
	"nsenter": {valued: "t S G target", rule: "container"}, "strace": {valued: "e o p u s a E P S O"}, "ltrace": {valued: "e o p u s n"},
	"watch": {valued: "n interval", script: true}, "xvfb-run": {valued: "n s e f server-args"}, "fakeroot": {valued: "l s i"}, "caffeinate": {valued: "t w"},
	"systemd-run": {valued: "p u E unit property setenv on-calendar on-active uid gid description slice", rule: "schedule"},
	"busybox":     {}, "toybox": {}, "proxychains": {valued: "f"}, "proxychains4": {valued: "f"}, "torsocks": {}, "firejail": {}, "dbus-run-session": {},
	"setarch": {operands: 1}, "linux32": {}, "linux64": {}, "numactl": {valued: "C N m cpunodebind membind"}, "cpulimit": {valued: "l e p"},
	"valgrind": {}, "rlwrap": {}, "unbuffer": {}, "catchsegv": {}, "softlimit": {valued: "m a d"}, "chpst": {valued: "u U b e / n l L m d o p f c r t"},
	"prlimit": {}, "daemonize": {valued: "a c e o p l u E"}, "entr": {}, "ld-linux-x86-64.so.2": {}, "ld-linux.so.2": {}, "ld-linux-aarch64.so.1": {}, "ld.so": {},
	"memusage": {}, "perf": {operands: 1, valued: "o e F p"}, "hyperfine": {valued: "w r m M n warmup runs", script: true}, "arch": {}, "dotenv": {valued: "f"},
	"ts-node": {}, "foreach": {}, "pipenv": {operands: 1}, "winpty": {}, "uv": {operands: 1}, "poetry": {operands: 1}, "bundle": {operands: 1}, "direnv": {operands: 2},
	"flock": {valued: "w E timeout conflict-exit-code", operands: 1}, "script": {valued: "c I O B T m o"}, "su": {valued: "c s g G w command shell", rule: "root"},
	"runuser": {valued: "u c s g G w command shell", rule: "root"},
}

// wrapped judges what a wrapper runs.
func (j *evaluator) wrapped(c call, w wrapper) text {
	if c.name == "entr" { // reads the names of files, not a script
		c.stdin = text{kind: anything}
	}
	o, rest := parse(c.args, w.valued, true)
	j.wrapperOptions(c, o)
	if c.name == "command" && o.any("v", "V") {
		return text{s: strings.Join(rest, "\n") + "\n", kind: known}
	}
	for len(rest) > 0 && w.assigns && strings.Contains(rest[0], "=") && !strings.HasPrefix(rest[0], "=") {
		n, v, _ := strings.Cut(rest[0], "=")
		j.set(n, v)
		j.setting(n, v)
		rest = rest[1:]
	}
	switch c.name {
	case "su", "script":
		if len(rest) > 1 && c.name == "su" {
			j.su(rest[1:], c.stdin)
		}
		rest = nil
	case "runuser":
		if _, ok := o.get("u"); !ok && len(rest) > 0 {
			j.su(rest[1:], c.stdin)
			rest = nil
		}
	case "flock":
		if len(rest) > 1 {
			if o2, _ := parse(rest[1:], "c command", true); o2.any("c", "command") {
				v, _ := o2.get("c")
				j.subshell(v, c.stdin, "sh", nil)
			}
		}
	case "uv", "poetry", "pipenv", "bundle", "perf":
		if len(rest) > 0 && (rest[0] == "add" || rest[0] == "pip" || rest[0] == "install" || rest[0] == "sync" || rest[0] == "tool") {
			j.hit("packages", c.name, strings.Join(rest, " "))
			return text{kind: anything}
		}
	}
	rest = rest[min(w.operands, len(rest)):]
	if w.rule != "" {
		program := ""
		if len(rest) > 0 {
			program = " " + base(rest[0])
		}
		j.hit(w.rule, c.name+program, strings.Join(rest, " "))
	}
	if len(rest) == 0 {
		return text{kind: anything}
	}
	if w.script {
		return j.subshell(strings.Join(rest, " "), c.stdin, "sh", nil)
	}
	for len(rest) > 0 && strings.HasPrefix(rest[0], "--") { // uv run --with x cmd
		rest = rest[1:]
	}
	return j.run(rest, c.stdin)
}

// wrapperOptions judges options of wrappers that themselves run something.
func (j *evaluator) wrapperOptions(c call, o options) {
	switch c.name {
	case "env":
		for _, n := range []string{"S", "split-string"} {
			if v, ok := o.get(n); ok {
				_, rest := parse(c.args, "u C unset chdir", true)
				j.subshell(v+" "+quoteAll(rest), c.stdin, "sh", nil)
			}
		}
		if v, ok := o.get("C"); ok {
			j.addDir(v)
		}
		if v, ok := o.get("chdir"); ok {
			j.addDir(v)
		}
	case "su", "script", "runuser":
		for _, n := range []string{"c", "command"} {
			if v, ok := o.get(n); ok {
				j.subshell(v, c.stdin, "sh", nil)
			}
		}
	case "sudo":
		if o.any("i", "s") && c.stdin.kind != none {
			_, rest := parse(c.args, wrappers["sudo"].valued, true)
			if len(rest) == 0 {
				j.piped(c.stdin)
			}
		}
		if o.any("e", "edit") {
			for _, a := range c.args {
				j.write("sudo", a)
			}
		}
	}
}

// su judges what follows the name of the user.
func (j *evaluator) su(args []string, in text) {
	if o, _ := parse(args, "c command s", false); o.any("c", "command") {
		v, ok := o.get("c")
		if !ok {
			v, _ = o.get("command")
		}
		j.subshell(v, in, "sh", nil)
	}
}

// addDir notes that the script may now stand in a folder. It may still stand where
// it was, for to change there can fail. The likely folder is last.
func (j *evaluator) addDir(dir string) {
	if dir == "-" {
		return
	}
	likely := j.place.settle(j.locate(j.dirs[len(j.dirs)-1], dir), true)
	if strings.HasPrefix(likely, unknown) {
		return
	}
	var next []string
	for _, d := range append(j.dirs[:len(j.dirs):len(j.dirs)], j.resolve(dir)...) {
		if d != likely && !strings.HasPrefix(d, unknown) && !slices.Contains(next, d) {
			next = append(next, d)
		}
	}
	j.dirs = append(next[:min(len(next), maxValues-1)], likely)
}
