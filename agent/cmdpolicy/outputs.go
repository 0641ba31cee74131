package cmdpolicy

import (
	"encoding/base64"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// A printer judges a program and returns what it prints.
type printer func(*evaluator, call) text

// printers are programs whose output is known if their input is, so that what is
// hidden by them is found.
func printers() map[string]printer {
	return map[string]printer{
		"echo": echo, "printf": printf, "cat": cat, "base64": decode64, "xxd": hexed, "rev": reversed, "tr": translated, "tac": cat, "head": cat,
		"sort": cat, "uniq": cat, "yes": echo, "mktemp": mktemp, "which": which, "pwd": pwd, "true": nothing, "false": nothing, ":": nothing,
		"test": nothing, "[": nothing, "basename": part, "dirname": part, "date": date, "curl": download, "wget": download, "fetch": download, "aria2c": download, "http": download,
		"lynx": download, "w3m": download, "gdown": download, "openssl": openssl, "gunzip": through, "zcat": through, "gzip": through, "xz": through,
		"base32": through, "bzip2": through, "uudecode": through, "tee": tee, "cut": through, "grep": through, "awk": awk, "nc": dialled, "ncat": dialled, "netcat": dialled, "sed": sed,
	}
}

func nothing(*evaluator, call) text { return text{kind: known} }

// part is what basename and dirname print.
func part(_ *evaluator, c call) text {
	if len(c.args) != 1 || strings.ContainsAny(c.args[0], string([]rune{hole, many, one})) {
		return text{kind: anything}
	}
	if c.name == "basename" {
		return text{s: path.Base(c.args[0]) + "\n", kind: known}
	}
	return text{s: path.Dir(c.args[0]) + "\n", kind: known}
}

// date prints its format; of the moment only the shape is known.
func date(_ *evaluator, c call) text {
	switch {
	case len(c.args) == 0:
		return text{s: "Mon Jan 1 00:00:00 UTC 2001\n", kind: known}
	case len(c.args) == 1 && strings.HasPrefix(c.args[0], "+") && !strings.ContainsRune(c.args[0], hole) && !strings.ContainsAny(c.args[0], "tn"):
		return text{s: moment.ReplaceAllString(c.args[0][1:], "1") + "\n", kind: known}
	}
	return text{kind: anything}
}

var moment = regexp.MustCompile(`%[-_0^#]*[A-Za-z%]`)

// octal matches \0155, as echo has it; elsewhere it is \155.
var octal = regexp.MustCompile(`\\0([0-7]{3})`)

func echo(_ *evaluator, c call) text {
	args, end := c.args, "\n"
	for len(args) > 0 && len(args[0]) > 1 && strings.Trim(args[0][1:], "neE") == "" && args[0][0] == '-' {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		args = args[1:]
	}
	s := strings.Join(args, " ")
	if strings.Contains(s, `\`) && !strings.ContainsRune(s, hole) {
		if out, _, err := expand.Format(nil, octal.ReplaceAllString(strings.ReplaceAll(s, "%", "%%"), `\$1`), nil); err == nil { // some shells do so without -e
			s = strings.ReplaceAll(unmark(out), "\x00", "") + "\n" + s
		}
	}
	return text{s: s + end, kind: known}
}

func printf(j *evaluator, c call) text {
	args := c.args
	name := ""
	if len(args) > 2 && args[0] == "-v" {
		name, args = args[1], args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	out := text{kind: anything}
	if len(args) > 0 && !slices.ContainsFunc(args, func(a string) bool { return strings.ContainsRune(a, hole) }) {
		out = formatted(args[0], args[1:])
	}
	if name == "" {
		return out
	}
	if out.kind != known {
		out.s = unknown
	}
	j.set(name, out.s)
	return text{kind: known}
}

func formatted(format string, args []string) text {
	var b strings.Builder
	for range maxFields {
		s, n, err := expand.Format(nil, format, args)
		if err != nil {
			return text{kind: anything}
		}
		b.WriteString(s)
		if args = args[min(n, len(args)):]; n == 0 || len(args) == 0 || b.Len() > maxText {
			break
		}
	}
	return text{s: strings.ReplaceAll(unmark(b.String()), "\x00", ""), kind: known}
}

// cat is any program that prints its files, or its input: the order of lines and
// how many there are does not matter here.
func cat(j *evaluator, c call) text {
	_, rest := parse(c.args, "n c k t o", false)
	if len(rest) == 0 {
		return c.stdin
	}
	var out text
	for _, f := range rest {
		if f == "-" {
			out = out.join(c.stdin)
			continue
		}
		out = out.join(j.read(f))
	}
	return out
}

func input(j *evaluator, c call, rest []string) text {
	if len(rest) > 0 && rest[0] != "-" {
		return j.read(rest[0])
	}
	return c.stdin
}

func decode64(j *evaluator, c call) text {
	o, rest := parse(c.args, "w wrap i", false)
	in := input(j, c, rest)
	if in.kind != known {
		return text{kind: anything, net: in.net}
	}
	if !o.any("d", "D", "decode") {
		return text{s: base64.StdEncoding.EncodeToString([]byte(in.s)), kind: known}
	}
	s := strings.TrimRight(strings.Join(strings.Fields(in.s), ""), "=")
	raw, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return text{kind: anything, net: in.net}
	}
	return text{s: unmark(strings.ReplaceAll(string(raw), "\x00", "")), kind: known}
}

func openssl(j *evaluator, c call) text {
	if slices.Contains(c.args, "base64") || slices.Contains(c.args, "-base64") {
		return decode64(j, call{name: "base64", args: []string{"-d"}, stdin: c.stdin})
	}
	return text{kind: anything, net: c.stdin.net || slices.Contains(c.args, "s_client")}
}

func hexed(_ *evaluator, c call) text {
	if o, _ := parse(c.args, "", false); !o.any("r") || c.stdin.kind != known {
		return text{kind: anything, net: c.stdin.net}
	}
	raw, err := hex.DecodeString(strings.Join(strings.Fields(c.stdin.s), ""))
	if err != nil {
		return text{kind: anything}
	}
	return text{s: unmark(strings.ReplaceAll(string(raw), "\x00", "")), kind: known}
}

func reversed(_ *evaluator, c call) text {
	if c.stdin.kind != known {
		return c.stdin
	}
	lines := strings.Split(c.stdin.s, "\n")
	for i, l := range lines {
		r := []rune(l)
		slices.Reverse(r)
		lines[i] = string(r)
	}
	return text{s: strings.Join(lines, "\n"), kind: known}
}

func translated(_ *evaluator, c call) text {
	o, rest := parse(c.args, "", false)
	if c.stdin.kind != known || o.any("c", "C") {
		return text{kind: anything, net: c.stdin.net}
	}
	switch {
	case o.any("d") && len(rest) == 1:
		from := ranged(rest[0])
		return text{s: strings.Map(func(r rune) rune {
			if strings.ContainsRune(from, r) {
				return -1
			}
			return r
		}, c.stdin.s), kind: known}
	case len(rest) == 2 && len(o) == 0:
		from, to := []rune(ranged(rest[0])), []rune(ranged(rest[1]))
		return text{s: strings.Map(func(r rune) rune {
			if i := slices.Index(from, r); i >= 0 && len(to) > 0 {
				return to[min(i, len(to)-1)]
			}
			return r
		}, c.stdin.s), kind: known}
	}
	return text{kind: anything, net: c.stdin.net}
}

// ranged writes out the ranges of a set of tr, such as a-z, as plain letters.
func ranged(set string) string {
	set = strings.NewReplacer("[:lower:]", "a-z", "[:upper:]", "A-Z", `\n`, "\n", `\t`, "\t").Replace(set)
	var b strings.Builder
	r := []rune(set)
	for i := 0; i < len(r); i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i] < r[i+2] && r[i+2]-r[i] < 256 {
			for x := r[i]; x <= r[i+2]; x++ {
				b.WriteRune(x)
			}
			i += 2
			continue
		}
		b.WriteRune(r[i])
	}
	return b.String()
}

func mktemp(*evaluator, call) text { return text{s: "/tmp/tmp.made\n", kind: known} }

func which(_ *evaluator, c call) text {
	_, rest := parse(c.args, "", false)
	return text{s: strings.Join(rest, "\n") + "\n", kind: known}
}

func pwd(j *evaluator, _ call) text { return text{s: j.directory() + "\n", kind: known} }

// through is a program that changes its input in a way that is not followed.
func through(j *evaluator, c call) text {
	_, _ = copying(j, c)
	return text{kind: anything, net: c.stdin.net}
}

func tee(j *evaluator, c call) text {
	out, _ := copying(j, c)
	return out
}

func awk(j *evaluator, c call) text {
	_, _ = scripted(j, c)
	return text{kind: anything, net: c.stdin.net}
}

func sed(j *evaluator, c call) text { return awk(j, c) }

// download is a program that prints or keeps what it gets from the network.
func download(j *evaluator, c call) text {
	_, _ = transfers(j, c)
	got := text{kind: anything, net: true}
	for _, o := range []string{"-o", "--output", "-O", "--output-document"} {
		if f := valueOf(c.args, o); f != "" && f != "-" {
			for _, p := range j.resolve(f) {
				j.files[p] = got
			}
		}
	}
	for _, a := range c.args {
		if f, ok := strings.CutPrefix(a, "--output="); ok {
			j.files[j.locate(j.dirs[0], f)] = got
		}
		if strings.Contains(a, "://") && (c.name != "curl" || slices.ContainsFunc(c.args, func(o string) bool {
			return strings.HasPrefix(o, "-") && !strings.HasPrefix(o, "--") && strings.Contains(o, "O") || o == "--remote-name"
		})) {
			j.files[j.locate(j.dirs[0], base(a))] = got
		}
	}
	return got
}

func dialled(j *evaluator, c call) text {
	_, _ = networks(j, c)
	return text{kind: anything, net: true}
}
