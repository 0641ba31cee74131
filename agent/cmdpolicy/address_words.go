package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

// What the operands of a program are.
type operands int

const (
	anyText    operands = iota // unknown: what looks like an address counts
	urls                       // hosts or URLs
	hosts                      // hosts
	oneHost                    // a host, then what does not matter
	hostPort                   // a host and a port
	remoteFile                 // host:path, or a file of this machine
	sockets                    // KIND:host:port
)

// A client is a program whose words are known. Options are listed without dashes.
type client struct {
	operands operands
	port     string // the default port
	valued   string // options of one letter that take a value
	hosts    string // options whose value is a host or a URL
	ports    string // options whose value is the port
	ignored  string // options whose value is data
}

const (
	curlValued = "d F H A e b c u T X o m w C y Y z r E t D K Q P x U h"
	curlData   = "d F H A e b c u T X o w Q data data-raw data-binary data-urlencode data-ascii json form form-string header user-agent referer cookie cookie-jar user output request write-out"
	sshValued  = "b c D E e F I i J L l m O o p Q R S W w B"
)

// clients lists the programs that open connections, and those that open none. It is never
// changed. What is not listed is anyText.
var clients = map[string]client{
	"curl":   {operands: urls, port: "80", valued: curlValued, hosts: "x", ignored: curlData},
	"wget":   {operands: urls, port: "80", valued: "e O o a t T U P Q w i l A R D I X B", ignored: "O o a U P A R D I X header post-data body-data user-agent output-document referer"},
	"aria2c": {operands: urls, port: "80", valued: "d o x s j k i l"},
	"http":   {operands: urls, port: "80"}, "https": {operands: urls, port: "443"}, "xh": {operands: urls, port: "80"}, "fetch": {operands: urls, port: "80"},
	"lynx": {operands: urls, port: "80"}, "w3m": {operands: urls, port: "80"}, "links": {operands: urls, port: "80"}, "elinks": {operands: urls, port: "80"},
	"ab": {operands: urls, port: "80", valued: "n c t s b p u T v x y z C H A P X e g d", hosts: "X"}, "wrk": {operands: urls, port: "80", valued: "c d t s H"}, "hey": {operands: urls, port: "80"},

	"ssh": {operands: oneHost, port: "22", valued: sshValued, hosts: "J W", ports: "p"}, "autossh": {operands: oneHost, port: "22", valued: sshValued + " M", hosts: "J W", ports: "p"},
	"slogin": {operands: oneHost, port: "22", valued: sshValued, hosts: "J W", ports: "p"}, "mosh": {operands: oneHost, port: ""}, "ssh-copy-id": {operands: oneHost, port: "22", valued: "i p o", ports: "p"},
	"ssh-keyscan": {operands: hosts, port: "22", valued: "p t T f", ports: "p"}, "rsh": {operands: oneHost, port: "514"}, "rlogin": {operands: oneHost, port: "513"},
	"scp": {operands: remoteFile, port: "22", valued: "c F i J l o P S D X", hosts: "J", ports: "P"}, "sftp": {operands: remoteFile, port: "22", valued: "b B c D F i J l o P R S s X", hosts: "J", ports: "P"},
	"rsync": {operands: remoteFile, valued: "e f B T M"},

	"nc": {operands: hostPort, valued: "p w s e c o i b I O P q T V X x m", hosts: "x"}, "ncat": {operands: hostPort, valued: "p w s e c o i g G d m x", hosts: "proxy"},
	"netcat": {operands: hostPort, valued: "p w s e c o i b I O P q T V X x m", hosts: "x"}, "cryptcat": {operands: hostPort, valued: "p w s e c o i k"},
	"telnet": {operands: hostPort, port: "23", valued: "b e l n S X"}, "ftp": {operands: hostPort, port: "21"}, "lftp": {operands: urls, port: "21", valued: "p u e c f", ports: "p"}, "tftp": {operands: hostPort, port: "69/udp"},
	"socat": {operands: sockets},

	"ping": {operands: hosts, valued: "c i w W s t I m l p Q M S T"}, "ping6": {operands: hosts, valued: "c i w W s t I m l p Q M S T"}, "traceroute": {operands: hosts, valued: "f m p q w N s i t z g"},
	"tracepath": {operands: hosts, valued: "m l p"}, "mtr": {operands: hosts, valued: "c i s m f o P"}, "nmap": {operands: hosts, valued: "p i e g D S", hosts: "iL"}, "arping": {operands: hosts, valued: "c w I s"},

	"psql": {valued: "h p U d c f v o F R P T", hosts: "h host", ports: "p port", ignored: "c command"}, "pg_dump": {valued: "h p U d f", hosts: "h host", ports: "p port"},
	"mysql": {valued: "h P u D e", hosts: "h host", ports: "P port", ignored: "e execute"}, "mariadb": {valued: "h P u D e", hosts: "h host", ports: "P port", ignored: "e execute"},
	"redis-cli": {valued: "h p a n u s", hosts: "h", ports: "p"}, "valkey-cli": {valued: "h p a n u s", hosts: "h", ports: "p"}, "mongosh": {valued: "u p", hosts: "host", ports: "port"},
	"docker": {valued: "p e", ignored: "p publish add-host"}, "podman": {valued: "p e", ignored: "p publish add-host"}, "nerdctl": {valued: "p e", ignored: "p publish add-host"},
}

// quiet lists the programs that open no connection, or whose command is looked at by itself.
var quiet = strings.Fields(`echo printf cat grep egrep fgrep zgrep rg ag ack sed jq yq head tail less more wc sort uniq cut tr tee touch mkdir
	ls cp mv rm ln diff test [ true false : read find gfind fd fdfind xargs gxargs parallel basename dirname date stat file du df tree
	eval trap alias export declare typeset local readonly unset set which type man history sleep seq expr cd pushd chmod chown`)

// command looks for addresses in the words of a command.
func (f *addressFinder) command(c call) {
	s := search{f, c.name}
	_, wraps := wrappers[c.name]
	switch {
	case strings.HasSuffix(c.name, "awk"):
		for _, a := range c.args {
			for _, path := range strings.FieldsFunc(a, func(r rune) bool { return strings.ContainsRune(" \t\n\"'|&(){}", r) }) {
				s.device(path)
			}
		}
		return
	case wraps, slices.Contains(quiet, c.name), isShell(c.name) && slices.ContainsFunc(c.args, runsText):
		return
	case c.name == "git":
		s.git(c.args)
		return
	}
	w := clients[c.name]
	words := split(w, c.args)
	port := w.port
	for _, o := range words {
		if o.name != "" && slices.Contains(strings.Fields(w.ports), o.name) {
			port = o.value
		}
		if c.name == "ssh" && o.name == "o" && strings.Contains(strings.ToLower(o.value), "port") {
			port = ""
		}
	}
	n := 0
	for _, o := range words {
		f.readings(o.value, func(v string) { s.word(w, optionWord{o.name, v}, port, n) })
		if o.name == "" {
			n++
		}
	}
	if w.operands == hostPort {
		s.pair(words, c.args, port)
	}
	if c.stdin.kind == known && w.operands == urls && slices.Contains(c.args, "-") { // a list of URLs, or options
		s.text(c.stdin.s)
	}
}

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish"}, name)
}

// runsText reports whether an option of a shell has it run the next word.
func runsText(option string) bool {
	return strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "--") && strings.Contains(option, "c")
}

// An optionWord is an operand, or the value of the option name ("-" for an option that is not
// listed).
type optionWord struct{ name, value string }

// The options of all programs whose value is an address to listen on, and those of curl that
// replace the address of a host, as host:port:address and host:port:address:port.
const (
	listening = "bind listen bind-address listen-address"
	replacing = "resolve connect-to"
)

// split returns operands and values of options in order. What follows an option of several
// letters that is not listed is returned as an operand.
func split(w client, args []string) (words []optionWord) {
	valued, listed := strings.Fields(w.valued), strings.Fields(w.hosts+" "+w.ports+" "+w.ignored+" "+listening+" "+replacing)
	for i := 0; i < len(args); i++ {
		a := args[i]
		next := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch long, isLong := strings.CutPrefix(a, "--"); {
		case isLong:
			name, value, ok := strings.Cut(long, "=")
			switch known := slices.Contains(listed, name); {
			case known && !ok:
				value = next()
			case !known:
				name = "-"
			}
			words = append(words, optionWord{name, value})
		case len(a) > 1 && a[0] == '-' && w.valued == "":
			words = append(words, optionWord{"-", a})
		case len(a) > 1 && a[0] == '-':
			k := strings.IndexFunc(a[1:], func(r rune) bool { return slices.Contains(valued, string(r)) })
			if k < 0 {
				continue
			}
			name, value := a[k+1:k+2], a[k+2:]
			if value == "" {
				value = next()
			}
			words = append(words, optionWord{name, value})
		default:
			words = append(words, optionWord{"", a})
		}
	}
	return words
}

// word looks at one reading of a word. n is the number of operands before it.
func (s search) word(w client, o optionWord, port string, n int) {
	in := func(names string) bool { return slices.Contains(strings.Fields(names), o.name) }
	switch {
	case o.name == "":
		s.operand(w, o.value, port, n)
	case in(w.ignored), in(w.ports):
	case in(w.hosts):
		if w.operands != anyText {
			port = ""
		}
		for v := range strings.SplitSeq(o.value, ",") { // of ssh -J
			s.authority(v, port)
		}
	case in(replacing):
		parts := strings.SplitN(o.value, ":", 3)
		for to := range strings.SplitSeq(parts[len(parts)-1], ",") {
			if len(parts) == 3 {
				s.hostPort(to, parts[1])
			}
		}
	case in(listening) && isListenAddress(o.value):
	default:
		s.text(o.value)
		if k, v, ok := strings.Cut(o.value, "="); ok && strings.HasSuffix(strings.ToLower(k), "hostname") || strings.EqualFold(k, "proxyjump") {
			s.authority(v, "")
		}
	}
}

// isListenAddress reports whether all interfaces or loopback are meant.
func isListenAddress(v string) bool {
	host, _, _ := strings.Cut(v, ":")
	return host == "" || host == "localhost" || host == "0.0.0.0" || strings.HasPrefix(host, "127.") || strings.HasPrefix(v, "[::")
}

// ranges matches ranges and lists of numbers, as nmap takes them.
var ranges = regexp.MustCompile(`([0-9]+)[-,][0-9,-]+`)

func (s search) operand(w client, v, port string, n int) {
	switch w.operands {
	case urls:
		for _, u := range globbed(v) {
			s.authority(u, port)
			if strings.Count(u, ":") > 1 && !isURL.MatchString(u) {
				s.text(u)
			}
		}
	case hosts:
		first := strings.ReplaceAll(ranges.ReplaceAllString(v, "$1"), "*", "1")
		if host, _, network := strings.Cut(first, "/"); network || first != v {
			s.addAs(host, "", false)
		}
		if !strings.Contains(v, "/") || strings.Contains(v, "://") {
			s.authority(v, port)
		}
	case oneHost:
		if n == 0 {
			s.authority(v, port)
		}
	case remoteFile:
		s.remote(v, port)
		if s.program == "sftp" {
			s.authority(v, port)
		}
	case sockets:
		kind, rest, _ := strings.Cut(v, ":")
		address, _, _ := strings.Cut(rest, ",")
		if !strings.HasPrefix(strings.ToUpper(kind), "UDP") {
			s.hostPort(address, "")
		} else if i := strings.LastIndexByte(address, ':'); i >= 0 {
			s.add(strings.Trim(address[:i], "[]"), address[i+1:]+"/udp")
		}
	case hostPort: // see pair
	default:
		s.text(v)
	}
}

// remote looks at a place of scp, rsync or git: a URL, or host:path.
func (s search) remote(v, port string) {
	if isURL.MatchString(v) {
		s.authority(v, port)
		return
	}
	if at := strings.IndexByte(v, '@'); at >= 0 && !strings.Contains(v[:at], "/") {
		v = v[at+1:]
	}
	end := strings.IndexByte(v, ':')
	if strings.HasPrefix(v, "[") {
		end = strings.IndexByte(v, ']') + 1
	}
	if end <= 0 || strings.Contains(v[:end], "/") {
		return
	}
	if strings.HasPrefix(v[end:], "::") {
		port = "873"
	}
	s.add(v[:end], port)
}

// pair looks at the operands of programs that take a host and its ports.
func (s search) pair(words []optionWord, args []string, port string) {
	var rest []string
	for _, o := range words {
		if o.name == "" {
			rest = append(rest, o.value)
		}
	}
	if len(rest) == 0 {
		return
	}
	udp := slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "u") || a == "--udp"
	})
	s.readings(rest[0], func(host string) {
		if len(rest) == 1 {
			s.authority(host, port)
		}
		for _, p := range rest[1:] {
			s.add(host[strings.LastIndexByte(host, '@')+1:], protocol(p, udp))
		}
	})
}

// globbed returns URLs that curl makes of one with {a,b} and [1-9]: each part is used once.
func globbed(v string) []string {
	all := []string{v}
	for i := 0; i < len(all) && len(all) < maxChoices; i++ {
		open := strings.IndexByte(all[i], '{')
		size := strings.IndexByte(all[i][open+1:], '}')
		if open < 0 || size < 0 {
			continue
		}
		for part := range strings.SplitSeq(all[i][open+1:open+1+size], ",") {
			all = append(all, all[i][:open]+part+all[i][open+size+2:])
		}
	}
	for _, u := range all {
		if m := globRange.FindStringSubmatch(u); m != nil {
			all = append(all, globRange.ReplaceAllString(u, "$1"), globRange.ReplaceAllString(u, "$2"))
		}
	}
	return all
}

var globRange = regexp.MustCompile(`\[([0-9a-zA-Z]+)-([0-9a-zA-Z]+)(?::[0-9]+)?\]`)

// localVerbs are the commands of git that reach no other repository.
var localVerbs = strings.Fields(`commit log grep tag show notes diff blame merge cherry-pick stash rebase revert branch checkout switch restore add rm mv
	status rev-parse shortlog describe reflog bisect am apply init reset clean`)

// git looks at the remotes and settings that a git command names.
func (s search) git(args []string) {
	verb, proxy := "", false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case (a == "-c" || a == "--config") && i+1 < len(args):
			i++
			k, v, _ := strings.Cut(args[i], "=")
			s.readings(k, s.text)
			s.readings(v, s.text)
			if strings.HasSuffix(strings.ToLower(k), "proxy") {
				s.readings(v, func(v string) { s.authority(v, "") })
			}
		case verb == "" && (a == "-C" || a == "--git-dir" || a == "--work-tree" || a == "--namespace"):
			i++
		case verb == "" && !strings.HasPrefix(a, "-"):
			verb = a
		case slices.Contains(localVerbs, verb):
		case strings.HasPrefix(a, "-"):
			s.readings(a, s.text)
		case proxy:
			s.readings(a, func(v string) { s.authority(v, "") })
		default:
			s.readings(a, func(v string) { s.remote(v, "22") })
			if verb == "config" || strings.Contains(a, "::") {
				s.readings(a, s.text)
			}
		}
		proxy = verb == "config" && strings.HasSuffix(strings.ToLower(a), "proxy")
	}
}
