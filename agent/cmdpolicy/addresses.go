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

// An address is a host that a command names.
type address struct {
	host, port string
	public     bool
	loopback   bool
}

// String returns host and port. An IPv6 address is written without brackets, which would be a
// link in the Markdown of the question.
func (a address) String() string {
	sep := ":"
	if strings.Contains(a.host, ":") {
		sep = " port "
	}
	if a.port == "" {
		return a.host
	}
	return a.host + sep + a.port
}

var (
	inURL    = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*):[/\\]{1,3}([^/?#\s"'<>` + "`" + `|,;()]*)`)
	quad     = regexp.MustCompile(`(?i)(?:^|[\s"'@=(,/])((?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){3})(?::(\d+))?(?:$|[\s"'/),:])`)
	local    = regexp.MustCompile(`(?i)(?:^|[\s"'@=(,/:])((?:[a-z0-9-]+\.)+(?:internal|local|lan|localhost)|localhost[46]?|ip6-localhost)(?::(\d+))?(?:$|[\s"'/),:])`)
	remote   = regexp.MustCompile(`^[\w.-]+@[\w-]+(\.[\w-]+)+(:|$)`)
	hostPort = regexp.MustCompile(`(?i)(?:^|[\s"'=])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}:\d{2,5}(?:$|[\s"'/])`)
	deviceIP = regexp.MustCompile(`^/dev/(?:tcp|udp)/`)
	number   = regexp.MustCompile(`^[\d.]{1,6}[a-z]?$|^0\.\d+\.\d+\.[1-9]\d*$`)
	hostName = regexp.MustCompile(`(?i)^(\[[0-9a-f:.%]+\]|[^/:@\s]+|[0-9a-f:]{3,})(?::(\d+))?(?:[/?#].*)?$`)
)

// wildcards are domains whose names resolve to the address that stands in the name.
var wildcards = []string{"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "lacolhost.com", "traefik.me"}

// address returns an address that a word names; one that is not public, if there is one. With
// host, the word itself is a host, with or without port and path. Otherwise it is any text:
// URLs, addresses in their usual form and names of this machine are found in it.
func (e *evaluator) address(word string, host bool) (address, bool) {
	word = strings.ReplaceAll(norm.NFKC.String(word), "。", ".")
	lower := strings.ToLower(word)
	colon, at, dots := strings.Contains(word, ":"), strings.Contains(word, "@"), strings.Count(word, ".") > 2
	named := strings.Contains(lower, "local") || strings.Contains(lower, ".internal") || strings.Contains(lower, ".lan")
	if !host && !colon && !at && !dots && !named && !strings.HasPrefix(word, "/dev/") {
		return address{}, false
	}
	var found []address
	for _, m := range allIf(colon, inURL, word) {
		if m[1] != "file" && len(m[1]) > 1 && !strings.HasPrefix(m[1], "sqlite") {
			before, _, _ := strings.Cut(m[2], `\`) // programs differ in what a backslash is
			for _, h := range []string{m[2], before} {
				found = append(found, newAddress(h[strings.LastIndexByte(h, '@')+1:], ports[strings.ToLower(m[1])]))
			}
		}
	}
	if host && len(found) == 0 && !number.MatchString(word[strings.LastIndexByte(word, '@')+1:]) && !strings.HasPrefix(word, ".") && !strings.HasPrefix(word, "/") {
		bare := word[strings.LastIndexByte(strings.SplitN(word, "/", 2)[0], '@')+1:]
		if m := hostName.FindStringSubmatch(bare); m != nil {
			found = append(found, newAddress(strings.TrimSuffix(bare[:len(m[0])], "/"), ""))
		}
	}
	for _, re := range []*regexp.Regexp{quad, local} {
		if host && len(found) > 0 {
			break // what follows the host is data
		}
		for _, m := range allIf(re == quad && dots || re == local && named, re, word) {
			if a := newAddress(m[1]+":"+m[2], ""); re == local || len(safehttp.Readings(m[1])) > 0 && !strings.HasPrefix(m[1], "0.") {
				found = append(found, a)
			}
		}
	}
	if at && remote.MatchString(word) || colon && hostPort.MatchString(word) || deviceIP.MatchString(word) {
		found = append(found, address{host: word, public: true})
	}
	if i := slices.IndexFunc(found, func(a address) bool { return !a.public && !e.allowed(a) }); i >= 0 {
		return found[i], true
	}
	if host || len(found) == 0 || slices.ContainsFunc(found, e.allowed) {
		return address{}, false
	}
	return found[0], true
}

// allIf returns the matches of an expression in a text that may have some.
func allIf(may bool, re *regexp.Regexp, text string) [][]string {
	if !may {
		return nil
	}
	return re.FindAllStringSubmatch(text, 32)
}

// allowed reports whether an address is a port of this machine on which a background process
// of the conversation listens.
func (e *evaluator) allowed(a address) bool {
	n, err := strconv.ParseUint(a.port, 10, 16)
	return a.loopback && err == nil && e.place.Listening != nil && e.place.Listening(uint16(n))
}

// ports are the ports of URLs without one, by scheme.
var ports = map[string]string{"http": "80", "https": "443", "ftp": "21", "ssh": "22", "git": "9418", "redis": "6379", "postgres": "5432", "postgresql": "5432", "mysql": "3306", "mongodb": "27017"}

// newAddress returns the address of a host with or without a port.
func newAddress(word, port string) address {
	host := word
	if strings.HasPrefix(word, "[") {
		inner, after, _ := strings.Cut(word[1:], "]")
		if host = inner; strings.HasPrefix(after, ":") {
			port = after[1:]
		}
	} else if _, err := netip.ParseAddr(word); err != nil {
		if i := strings.LastIndexAny(word, ":"); i >= 0 {
			if host = word[:i]; word[i+1:] != "" {
				port = word[i+1:]
			}
		}
	}
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	if h, err := url.PathUnescape(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	a := address{host: host, port: port, public: true}
	readings := safehttp.Readings(host)
	if i := slices.IndexFunc(readings, func(r netip.Addr) bool { return !safehttp.Public(r) }); i >= 0 {
		a.host, a.public, a.loopback = readings[i].String(), false, readings[i].IsLoopback() || readings[i].IsUnspecified()
	} else if safehttp.LocalName(host) || slices.ContainsFunc(wildcards, func(w string) bool { return host == w || strings.HasSuffix(host, "."+w) }) {
		a.public, a.loopback = false, strings.HasPrefix(host, "localhost") || strings.HasSuffix(host, ".localhost")
	}
	return a
}

// reach notes that a command connects to an address that is not public. In a full sandbox one
// of this machine may be that of the command line's own network.
func (e *evaluator) reach(c *call, a address) {
	n := len(e.findings)
	e.find("address", a.String(), withTarget(c.shape(), a.String()))
	if a.loopback {
		e.later(n)
	}
}

// later puts off findings until it is known whether the command line has a network of its own.
func (e *evaluator) later(n int) {
	if e.place.Sandbox == Full {
		e.loopback = append(e.loopback, e.findings[n:]...)
		e.findings = e.findings[:n]
	}
}

// device returns the address that a file name of bash stands for.
func (e *evaluator) device(name string) (address, bool) {
	if !deviceIP.MatchString(name) {
		return address{}, false
	}
	host, port, _ := strings.Cut(name[len("/dev/tcp/"):], "/")
	return newAddress(host+":"+port, ""), true
}

// connect examines a command of the table that uses the network.
func (e *evaluator) connect(c *call) {
	public := false
	unknown := func(w string) bool { return strings.ContainsAny(w, hole+measured) || strings.Contains(w, "./"+listed) } // also names of files
	if c.is("silent") && e.piped != "" || c.kind != "build" && c.kind != "list" && slices.ContainsFunc(slices.Concat(c.operands, c.values, c.data), unknown) {
		e.find("unknown-data", title(c.argv, c.row), "")
	}
	hosts := slices.Concat(c.operands, c.values)
	if c.patterns["first"] != nil {
		hosts = append(hosts, c.data...)
	}
	for _, w := range hosts {
		if c.kind == "list" && !strings.ContainsAny(w, ".:") {
			continue
		}
		lower := strings.ToLower(w)
		if len(w) > 300 || slices.ContainsFunc(e.table.sets["collectors"], func(s string) bool { return strings.Contains(lower, s) }) {
			e.find("upload", title(c.argv, c.row), "")
		}
		if a, ok := e.address(w, true); ok && !(a.loopback && (c.is("local") || !(e.background && e.place.Sandbox == Full) && e.table.patterns["health"].MatchString(w))) {
			if e.reach(c, a); a.loopback && e.place.Sandbox == Full {
				continue
			}
		}
		public = public || strings.ContainsAny(w, ".:")
	}
	e.network = e.network || public || len(e.loopback) == 0
	e.downloads = e.downloads || public && c.is("fetch") && (c.kind == "write" || len(c.outputs) > 0 || c.option("-O", "-J", "--remote-name") || e.saves())
}
