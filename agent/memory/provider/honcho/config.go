package honcho

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

// A config is the configuration of one Hermes host.
type config struct {
	key                         secret.Value
	grant                       *grant // nil: the key does not end
	base, workspace, peer, ai   string
	timeout                     time.Duration // 0: that of package rest
	pin, save, waits            bool
	aliases                     map[string]string
	prefix                      string
	aiPrefix, peerPrefix        bool
	mode                        string
	first                       bool // recall in the first turn of a conversation only
	level, maxLevel             string
	dynamic, heuristic          bool
	cadence, standingEvery      int // turns
	maxAnswer, maxQuery, maxMsg int // characters
	tokens                      int // of a recall; 0: no limit
	sections                    []string
	observe                     observation
}

// An observation is what the two peers of a session observe.
type observation struct {
	User sight `json:"user"`
	AI   sight `json:"ai"`
}

type sight struct {
	Me     bool `json:"observeMe"`
	Others bool `json:"observeOthers"`
}

// A file is upstream's file of settings.
type file struct {
	path string // "" if there is none
	host string // key of the Hermes host's block
	root map[string]json.RawMessage
	own  map[string]json.RawMessage // the block
	// all has the settings of the block and, where that has none, those of the root.
	all *settings.Object
}

// without are settings of upstream that mean nothing in a daemon.
var without = []string{
	"hosts", "oauth", "endpoint", "writeFrequency", "sessions", "sessionStrategy", "a2aSessions", "logging", "initOnSessionStart",
	"firstTurnBaseWait", "firstTurnDialecticWait", "dialecticDepthLevels",
}

// load reads the configuration. Each key is taken from the block of the host, else from
// the root of the file, else from the environment.
func load(s provider.Source) (c config, warnings []string, err error) {
	f, err := read(s)
	if err != nil {
		return c, nil, err
	}
	o := f.all
	o.Skip(without...)
	c = config{
		workspace: clean(cmp.Or(o.Text("workspace"), f.host)), peer: o.Text("peerName"), ai: clean(cmp.Or(o.Text("aiPeer"), f.host)),
		pin: o.Bool("pinUserPeer", o.Bool("pinPeerName", false)), prefix: o.Text("runtimePeerPrefix"),
		peerPrefix: o.Bool("sessionPeerPrefix", false), aiPrefix: o.Bool("sessionAiPeerPrefix", false),
		save: o.Bool("saveMessages", true), mode: o.Text("recallMode"), waits: o.Bool("recallSync", false), first: o.Text("injectionFrequency") == "first-turn",
		level: cmp.Or(o.Text("dialecticReasoningLevel"), "low"), maxLevel: cmp.Or(o.Text("reasoningLevelCap"), "high"),
		dynamic: o.Bool("dialecticDynamic", true), heuristic: o.Bool("reasoningHeuristic", true), cadence: max(o.Int("dialecticCadence", 1), 1),
		standingEvery: max(o.Int("contextCadence", 1), 1), maxAnswer: max(o.Int("dialecticMaxChars", 600), 1), maxQuery: within(o.Int("dialecticMaxInputChars", 0), 10_000),
		maxMsg: within(o.Int("messageMaxChars", 0), maxContent), tokens: o.Int("contextTokens", 0),
	}
	if c.mode != "context" && c.mode != "tools" {
		c.mode = "hybrid"
	}
	_ = json.Unmarshal(o.Raw("userPeerAliases"), &c.aliases) // of another form: none
	c.observe = observations(f)
	c.sections = sections(o.Raw("injection"))
	if err := c.connect(s, f); err != nil {
		return c, nil, err
	}
	c.grant = grantOf(f, s)
	return c, f.warnings(s), nil
}

// within returns n, or limit if n is not between 1 and limit.
func within(n, limit int) int {
	if n < 1 || n > limit {
		return limit
	}
	return n
}

// read reads the first file that exists.
func read(s provider.Source) (f file, err error) {
	home := cmp.Or(s.Getenv("HOME"), s.Getenv("USERPROFILE"))
	paths := []string{filepath.Join(s.Home, "honcho.json"), filepath.Join(home, ".hermes", "honcho.json"), filepath.Join(home, ".honcho", "config.json")}
	for _, path := range paths {
		f.root, err = readObject(s.Planned, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return f, fmt.Errorf("honcho: %w", err)
		}
		f.path = path
		break
	}
	names := []string{"hermes"}
	if s.Profile != "" {
		names = []string{"hermes_" + s.Profile, "hermes." + s.Profile} // the second is an old form
	}
	if name := s.Getenv("HERMES_HONCHO_HOST"); name != "" {
		names = []string{name}
	}
	var hosts map[string]map[string]json.RawMessage
	_ = json.Unmarshal(f.root["hosts"], &hosts) // of another form: none
	f.host = names[0]
	for _, name := range slices.Backward(names) {
		if hosts[name] != nil {
			f.host, f.own = name, hosts[name]
		}
	}
	all := maps.Clone(f.root)
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	for name, value := range f.own {
		if text := string(value); text != "null" && text != `""` { // which say nothing
			all[name] = value
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return f, err
	}
	f.all, err = settings.Parse(f.path, raw)
	return f, err
}

func readObject(planned map[string][]byte, path string) (v map[string]json.RawMessage, err error) {
	raw, err := settings.ReadFile(planned, path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", path, err)
	}
	return v, nil
}

// observations returns who observes whom. Files with a block of the host and without a
// mode are older than the mode, and have another one than new ones.
func observations(f file) observation {
	mode := f.all.Text("observationMode")
	o := observation{User: sight{true, true}, AI: sight{true, true}}
	if mode == "unified" || mode == "" && len(f.own) > 0 {
		o = observation{User: sight{Me: true}, AI: sight{Others: true}}
	}
	_ = json.Unmarshal(f.all.Raw("observation"), &o) // what has another form has no effect
	return o
}

// sections returns the names of the sections of the standing text.
func sections(injection json.RawMessage) []string {
	var v struct {
		Start json.RawMessage `json:"sessionStart"`
	}
	_ = json.Unmarshal(injection, &v) // of another form: all sections
	list := settings.List(v.Start)
	if len(list) == 0 || slices.Contains(list, "all") {
		return []string{"summary", "peerRepresentation", "peerCard", "aiRepresentation", "aiCard"}
	}
	return list
}

var version = lazyregexp.New(`/v\d+/*$`)

// connect determines the server, the key and the time limit.
func (c *config) connect(s provider.Source, f file) error {
	if !f.all.Bool("enabled", true) {
		return fmt.Errorf("%s has enabled: false: set it to true, or choose another memory.provider", f.path)
	}
	o := f.all
	section, err := settings.Parse("honcho in config.yaml", []byte(cmp.Or(string(s.Section), "{}")))
	if err != nil {
		return err
	}
	var endpoint struct {
		Base string `json:"baseUrl"`
	}
	_ = json.Unmarshal(f.root["endpoint"], &endpoint) // the form of other programs
	base := o.Text("baseUrl", "base_url")
	if f.own["baseUrl"] == nil && f.own["base_url"] == nil {
		base = cmp.Or(endpoint.Base, base)
	}
	c.base = cmp.Or(base, s.Getenv("HONCHO_BASE_URL"), s.Getenv("HONCHO_URL"), section.Text("base_url"))
	own := o.Text("apiKey")
	c.key = secret.Value(cmp.Or(own, s.Getenv("HONCHO_API_KEY")))
	if c.key == "" && c.base == "" {
		return errors.New("honcho: no key: set HONCHO_API_KEY in .env, or baseUrl in honcho.json for a server of your own")
	}
	if c.base == "" {
		c.base = "https://api.honcho.dev"
		if environment(s, o) == "local" {
			c.base = "http://localhost:8000"
		}
	}
	c.base = strings.TrimRight(version().ReplaceAllString(c.base, ""), "/")
	if own == "" && local(c.base) {
		c.key = "local" // such a server needs none; that of the environment is for the cloud
	}
	for _, v := range []string{o.Text("timeout"), o.Text("requestTimeout"), s.Getenv("HONCHO_TIMEOUT"), section.Text("timeout", "request_timeout")} {
		if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 && n < 1e6 && c.timeout == 0 {
			c.timeout = time.Duration(n * float64(time.Second))
		}
	}
	return nil
}

func environment(s provider.Source, o *settings.Object) string {
	return cmp.Or(o.Text("environment"), s.Getenv("HONCHO_ENVIRONMENT"), "production")
}

// local reports whether a URL names this machine or a private network.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && (a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || netip.MustParsePrefix("100.64.0.0/10").Contains(a))
}

// warnings names what has no effect. Other programs share the file below ~/.honcho, so
// their keys in it are none of ours.
func (f file) warnings(s provider.Source) (list []string) {
	if n := f.all.Int("dialecticDepth", 1); n > 1 {
		list = append(list, "honcho: dialecticDepth has no effect: one pass is made")
	}
	if f.all.Bool("queryRewrite", false) {
		list = append(list, "honcho: queryRewrite has no effect here")
	}
	if e := environment(s, f.all); e != "production" && e != "local" {
		list = append(list, fmt.Sprintf("honcho: the environment %q is unknown, production is used", e))
	}
	if filepath.Base(f.path) == "honcho.json" {
		list = append(list, f.all.Unknown()...)
	}
	return list
}
