package cmdpolicy

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"hermesd/internal/safehttp"
)

// An Address is an address that a command names and that is not public: of this machine, of
// a private network, link-local, or of the metadata service of a cloud.
type Address struct {
	Host     string // an IP address in its usual form, or a name in lower case
	Port     string // such as "22" or "53/udp"; "": unknown
	Program  string // to which the command gives the address; "" if the port is known
	Loopback bool   // it is an address of this machine
	// Exact is false if the words do not determine the address, so that an approval covers
	// only one command.
	Exact bool
}

// String returns host and port, and the program if the port is unknown. An IPv6 address is
// written without brackets, which would be a link in the Markdown of the question.
func (a Address) String() string {
	host, port := a.Host, a.Port
	if port == "" {
		port = "? (" + a.Program + ")"
	}
	if strings.Contains(host, ":") {
		return host + " port " + port
	}
	return host + ":" + port
}

// addressRule is the rule for addresses that are not public.
const addressRule = "address"

// WithAddresses returns the result if an approval is also required for these addresses.
func (r Result) WithAddresses(addresses []Address) Result {
	if len(addresses) == 0 {
		return r
	}
	rule := rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == addressRule })]
	exact := r.Class == Allowed || r.ApprovalKey != ""
	var keys, shown []string
	if r.ApprovalKey != "" {
		keys = strings.Split(r.ApprovalKey, "\n")
	}
	for _, a := range addresses {
		exact = exact && a.Exact
		shown, keys = append(shown, a.String()), append(keys, "address "+a.String())
	}
	slices.Sort(keys)
	key := strings.Join(slices.Compact(keys), "\n")
	r.Class = max(r.Class, rule.Class)
	r.Rules = append(slices.Clip(r.Rules), rule.Name)
	r.Reasons = append(append(slices.Clip(r.Reasons), rule.Description), shown...)
	r.ApprovalKey = ""
	if r.Class == Dangerous && exact && len(key) <= maxKey {
		r.ApprovalKey = key
	}
	return r
}

// An addressFinder collects the addresses that are not public from the words of commands.
type addressFinder struct {
	found    []Address
	brackets []string // IPv6 addresses in brackets that were expanded to the mark one
}

// bracketed matches an IPv6 address in brackets, which a shell reads as a pattern.
var bracketed = regexp.MustCompile(`(?i)\[[0-9a-f:.]*:[0-9a-f:.]*(%[^\]]*)?\]`)

// note keeps the IPv6 addresses of a literal, before it is expanded.
func (f *addressFinder) note(literal string) {
	for _, b := range bracketed.FindAllString(literal, maxValues) {
		if len(f.brackets) < maxValues && !slices.Contains(f.brackets, b) {
			f.brackets = append(f.brackets, b)
		}
	}
}

// assign looks for addresses in the value of a variable. A plain loopback address without a
// port is usually one to listen on; where the command uses the variable itself, the value is
// seen again.
func (f *addressFinder) assign(name, value string) {
	s := search{f, variable + name}
	lower := strings.ToLower(name)
	switch {
	case lower == "no_proxy":
	case strings.HasSuffix(lower, "_proxy"):
		f.readings(value, func(v string) { s.authority(v, "") })
	default:
		f.readings(value, func(v string) {
			if a := safehttp.Readings(v); v != "localhost" && (len(a) == 0 || !a[0].IsLoopback() && !a[0].IsUnspecified()) {
				s.text(v)
			}
		})
	}
}

// redirect looks for an address in the target of a redirection.
func (f *addressFinder) redirect(target string) { search{f, "shell"}.device(target) }

// addresses returns what was found. An address in a variable without a port is left out if a
// word of the command has it too.
func (f *addressFinder) addresses() []Address {
	return slices.DeleteFunc(slices.Clone(f.found), func(a Address) bool {
		return strings.HasPrefix(a.Program, variable) && slices.ContainsFunc(f.found, func(b Address) bool {
			return b.Host == a.Host && !strings.HasPrefix(b.Program, variable)
		})
	})
}

// variable precedes the name of a variable in the place of a program.
const variable = "variable "

// readings calls look for each text that a word may stand for.
func (f *addressFinder) readings(word string, look func(string)) {
	if len(word) > maxText || len(f.found) >= maxFields {
		return
	}
	look(word)
	if strings.ContainsRune(word, one) {
		for _, b := range f.brackets {
			look(strings.Replace(word, string(one), b, 1))
		}
	}
}

// A search adds what it finds in words that are given to a program.
type search struct {
	*addressFinder
	program string
}

var (
	devicePath = regexp.MustCompile(`^/(?:dev|inet[46]?)/(tcp|udp)/(?:\d+/)??([^/]+)/([^/]+)$`)
	inURL      = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*):[/\\]{2,}([^/?#\s"'<>` + "`" + `|,;()]*)`)
	isURL      = regexp.MustCompile(`(?i)^([a-z][a-z0-9+.-]*):[/\\]+(.*)$`)
	quad       = regexp.MustCompile(`(?i)^(?:-[a-z])?((?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){3})(?:[-,*].*)?$`)
	plainName  = regexp.MustCompile(`^[a-z0-9._:%+-]+$`)
	plainWord  = regexp.MustCompile(`^[\w.+ -]+$`)
	localhost  = []string{"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "localhost.localdomain"}
)

// wildcards are domains whose names resolve to the address that stands in the name.
var wildcards = []string{"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "lacolhost.com", "traefik.me"}

// defaultPorts are the ports of URLs without a port, by scheme.
var defaultPorts = map[string]string{
	"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "ftps": "990", "sftp": "22", "ssh": "22", "scp": "22", "git": "9418", "git+ssh": "22", "ssh+git": "22",
	"telnet": "23", "redis": "6379", "rediss": "6379", "postgres": "5432", "postgresql": "5432", "mysql": "3306", "mongodb": "27017", "amqp": "5672", "ldap": "389", "ldaps": "636",
	"smb": "445", "socks4": "1080", "socks4a": "1080", "socks5": "1080", "socks5h": "1080", "gopher": "70", "dict": "2628", "rtsp": "554", "mqtt": "1883", "rsync": "873", "svn": "3690", "tftp": "69/udp",
}

// device looks for an address in a path by which a shell or awk opens a connection.
func (s search) device(path string) {
	if m := devicePath.FindStringSubmatch(strings.ReplaceAll(path, "//", "/")); m != nil {
		s.add(m[2], protocol(m[3], m[1] == "udp"))
	}
}

func protocol(port string, udp bool) string {
	if udp && port != "" {
		return port + "/udp"
	}
	return port
}

// authority looks at a word that a program takes for a host, with or without scheme, user,
// port and path. port applies if there is neither a scheme nor a port.
func (s search) authority(word, port string) {
	rest := strings.TrimSpace(word)
	if m := isURL.FindStringSubmatch(rest); m != nil {
		scheme := strings.ToLower(m[1])
		if scheme == "file" {
			return
		}
		port, rest = defaultPorts[scheme], strings.TrimLeft(m[2], `/\`)
	}
	for _, ends := range []string{"/?#", `/?#\`} { // programs differ in what a backslash is
		host := rest
		if i := strings.IndexAny(host, ends); i >= 0 {
			host = host[:i]
		}
		s.hostPort(host[strings.LastIndexByte(host, '@')+1:], port)
	}
}

// hostPort looks at host, host:port or an IPv6 address with or without brackets.
func (s search) hostPort(word, port string) {
	host := word
	if strings.HasPrefix(word, "[") {
		inner, after, _ := strings.Cut(word[1:], "]")
		host = inner
		if p := strings.TrimPrefix(after, ":"); p != "" {
			port = p
		}
	} else if _, err := netip.ParseAddr(word); err != nil {
		if i := strings.LastIndexByte(word, ':'); i >= 0 {
			host = word[:i]
			if word[i+1:] != "" {
				port = word[i+1:]
			}
		}
	}
	s.add(host, port)
}

// text looks for addresses anywhere in a word of which it is unknown what the program does
// with it: URLs, addresses in the usual form, and localhost.
func (s search) text(word string) {
	word = norm.NFKC.String(strings.NewReplacer(string(hole), "1", string(many), "1", string(one), "1").Replace(word))
	for _, m := range inURL.FindAllStringSubmatch(word, maxFields) {
		s.authority(m[0], "")
	}
	word = inURL.ReplaceAllString(word, " ")
	for _, b := range bracketed.FindAllStringIndex(word, maxFields) {
		port := ""
		if tail := word[b[1]:]; strings.HasPrefix(tail, ":") {
			port = tail[1 : 1+len(tail[1:])-len(strings.TrimLeft(tail[1:], "0123456789"))]
		}
		s.add(word[b[0]+1:b[1]-1], port)
	}
	word = bracketed.ReplaceAllString(word, " ")
	for _, token := range strings.FieldsFunc(word, func(r rune) bool {
		return !(r == '.' || r == '-' || r == ':' || r == '_' || r == '/' || r == '%' || r == '*' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z')
	}) {
		s.token(token)
	}
}

// token looks at a part of a word, such as 10.0.0.5:22, 8080:localhost:80 or 10.0.0.0/24.
func (s search) token(token string) {
	if a, err := netip.ParseAddr(token); err == nil && a.Is6() && strings.ContainsAny(token, "0123456789") {
		s.add(token, "")
		return
	}
	for piece := range strings.SplitSeq(token, "/") {
		parts := strings.Split(piece, ":")
		for i, host := range parts {
			port := ""
			if i+1 < len(parts) && isNumber(parts[i+1]) {
				port = parts[i+1]
			}
			lower := strings.ToLower(strings.TrimSuffix(host, "."))
			switch m := quad.FindStringSubmatch(host); {
			case m != nil:
				inexact := !strings.HasSuffix(host, m[1]) || strings.Contains(token, "/")
				s.addAs(m[1], port, !inexact)
			case slices.Contains(localhost, lower), port != "" && strings.Contains(host, ".") && safehttp.LocalName(host):
				s.add(host, port)
			}
		}
	}
}

func (s search) add(host, port string) { s.addAs(host, port, true) }

// addAs adds an address unless it is public or a name that only DNS can tell.
func (s search) addAs(host, port string, exact bool) {
	const marks = string(hole) + string(many) + string(one)
	shown := printable(host)
	exact = exact && !strings.ContainsAny(host+port, marks)
	host = strings.NewReplacer(string(hole), "1", string(many), "1", string(one), "1").Replace(host)
	if h, err := url.PathUnescape(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.ReplaceAll(norm.NFKC.String(host), "。", "."))
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	a := Address{Host: host, Port: cleanPort(port)}
	if a.Port == "" {
		a.Program = s.program
		exact = exact && port == "" && plainWord.MatchString(s.program)
	}
	readings := safehttp.Readings(host)
	i := slices.IndexFunc(readings, notPublic)
	switch {
	case i >= 0:
		a.Host, a.Loopback = readings[i].String(), readings[i].IsLoopback() || readings[i].IsUnspecified()
		exact = exact && len(readings) == 1
	case len(readings) > 0:
		return
	case slices.Contains(localhost, host), strings.HasSuffix(host, ".localhost"):
		a.Loopback = true
	case !safehttp.LocalName(host) && !slices.ContainsFunc(wildcards, func(w string) bool { return host == w || strings.HasSuffix(host, "."+w) }):
		return
	}
	if a.Exact = exact && plainName.MatchString(a.Host); !a.Exact && strings.ContainsAny(shown, "…*?") {
		a.Host = shown
	}
	if len(s.found) < maxFields && !slices.Contains(s.found, a) {
		s.found = append(s.found, a)
	}
}

// notPublic reports whether an address must not be reached unasked. Of 0.0.0.0/8 only the
// first address is one that connections reach; the others are numbers and versions.
func notPublic(a netip.Addr) bool {
	return !safehttp.Public(a) && (!a.Is4() || a.As4()[0] != 0 || a.IsUnspecified())
}

// cleanPort returns a port in its usual form, "" if it is none.
func cleanPort(port string) string {
	number, udp := strings.CutSuffix(port, "/udp")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return ""
	}
	return protocol(strconv.FormatUint(n, 10), udp)
}
