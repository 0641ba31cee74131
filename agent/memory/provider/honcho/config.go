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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/secret"
)

// A config is the configuration of one Hermes host.
type config struct {
	path string // of the file; "" if there is none
	host string // key of the host's block in the file

	key                                   secret.Value
	base, workspace, peer, ai             string
	timeout                               time.Duration // 0: that of package rest
	pin, save, sync, aiPrefix, peerPrefix bool
	aliases                               map[string]string
	prefix, strategy, mode, frequency     string
	level, maxLevel                       string
	dynamic, heuristic                    bool
	cadence, maxAnswer, maxQuery          int
	maxMessage, tokens                    int
	sections                              []string // of the standing text
	observe                               observation
	grant                                 *grant // nil: key does not expire
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

// load reads the configuration. Each key is taken from the block of the host, else from
// the root of the file, else from the environment.
func load(s provider.Source) (c config, warnings []string, err error) {
	c.path, err = find(s)
	if err != nil {
		return c, nil, err
	}
	root, host := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if c.path != "" {
		if root, err = readObject(c.path); err != nil {
			return c, nil, err
		}
	}
	if c.host, host, err = hostBlock(s, root); err != nil {
		return c, nil, fmt.Errorf("%s: %w", c.path, err)
	}
	values := maps.Clone(root)
	maps.Copy(values, host)
	for name, raw := range root { // an empty value of the host says nothing
		if empty(values[name]) {
			values[name] = raw
		}
	}
	if c, err = c.read(values, len(host) > 0); err != nil {
		return c, nil, fmt.Errorf("%s: %w", c.path, err)
	}
	if err := c.connect(s, root, host, values); err != nil {
		return c, nil, err
	}
	c.grant = grantOf(c.path, c.host, host)
	return c, c.warnings(s, root, host, values), nil
}

func empty(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == `""`
}

// find returns the first file of configuration that exists.
func find(s provider.Source) (string, error) {
	home := s.Getenv("HOME")
	for _, path := range []string{filepath.Join(s.Home, "honcho.json"), filepath.Join(home, ".hermes", "honcho.json"), filepath.Join(home, ".honcho", "config.json")} {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("configuration of Honcho: %w", err)
		}
	}
	return "", nil
}

func readObject(path string) (v map[string]json.RawMessage, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration of Honcho: %w", err)
	}
	if err := json.Unmarshal(raw, &v); err != nil || v == nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", path, cmp.Or(err, errors.New("null")))
	}
	return v, nil
}

// hostBlock returns the block of the Hermes profile and its key in the file.
func hostBlock(s provider.Source, root map[string]json.RawMessage) (key string, block map[string]json.RawMessage, err error) {
	names := []string{"hermes"}
	if s.Profile != "" {
		names = []string{"hermes_" + s.Profile, "hermes." + s.Profile}
	}
	if name := s.Getenv("HERMES_HONCHO_HOST"); name != "" {
		names = []string{name}
	}
	var hosts map[string]map[string]json.RawMessage
	if raw := root["hosts"]; raw != nil {
		if err := json.Unmarshal(raw, &hosts); err != nil {
			return "", nil, fmt.Errorf("hosts: %w", err)
		}
	}
	for _, name := range names {
		if hosts[name] != nil {
			return name, hosts[name], nil
		}
	}
	return names[0], nil, nil
}

// ignored are upstream's keys that have no effect here.
var ignored = []string{
	"hosts", "oauth", "endpoint", "baseUrl", "base_url", "environment", "enabled", "apiKey", "observation", "injection", "observationMode", "timeout", "requestTimeout",
	"writeFrequency", "sessions", "a2aSessions", "dialecticDepthLevels", "contextCadence", "queryRewrite", "firstTurnBaseWait", "firstTurnDialecticWait",
	"logging", "initOnSessionStart", "dialecticDepth", "pinPeerName", "sessionStrategy",
}

// fields returns where the values of keys are stored.
func (c *config) fields() map[string]any {
	return map[string]any{
		"workspace": &c.workspace, "peerName": &c.peer, "aiPeer": &c.ai, "pinUserPeer": &c.pin, "userPeerAliases": &c.aliases, "runtimePeerPrefix": &c.prefix,
		"recallMode": &c.mode, "recallSync": &c.sync, "saveMessages": &c.save, "sessionPeerPrefix": &c.peerPrefix, "sessionAiPeerPrefix": &c.aiPrefix,
		"dialecticCadence": &c.cadence, "dialecticReasoningLevel": &c.level, "dialecticDynamic": &c.dynamic, "reasoningHeuristic": &c.heuristic,
		"reasoningLevelCap": &c.maxLevel, "dialecticMaxChars": &c.maxAnswer, "dialecticMaxInputChars": &c.maxQuery, "contextTokens": &c.tokens,
		"messageMaxChars": &c.maxMessage, "injectionFrequency": &c.frequency,
	}
}

// read decodes values; explicit: the host has a block in the file.
func (c config) read(values map[string]json.RawMessage, explicit bool) (config, error) {
	c.save, c.dynamic, c.heuristic = true, true, true
	c.cadence, c.maxAnswer, c.maxQuery, c.maxMessage = 1, 600, 10_000, maxContent
	c.mode, c.frequency, c.level, c.maxLevel = "hybrid", "every-turn", "low", "high"
	if empty(values["pinUserPeer"]) {
		values["pinUserPeer"] = values["pinPeerName"]
	}
	for name, to := range c.fields() {
		raw := values[name]
		if empty(raw) {
			continue
		}
		if _, number := to.(*int); number { // upstream's wizard has written numbers as text
			raw = json.RawMessage(strings.Trim(string(raw), `"`))
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	c.cadence, c.maxMessage, c.maxQuery = max(c.cadence, 1), within(c.maxMessage, maxContent), within(c.maxQuery, 10_000)
	c.workspace, c.ai = clean(cmp.Or(c.workspace, c.host)), clean(cmp.Or(c.ai, c.host))
	if c.mode != "context" && c.mode != "tools" {
		c.mode = "hybrid"
	}
	return c, c.readNested(values, explicit)
}

// within returns n, or limit if n is not between 1 and limit.
func within(n, limit int) int {
	if n < 1 || n > limit {
		return limit
	}
	return n
}

func (c *config) readNested(values map[string]json.RawMessage, explicit bool) error {
	var mode string
	if raw := values["observationMode"]; raw != nil {
		if err := json.Unmarshal(raw, &mode); err != nil {
			return fmt.Errorf("observationMode: %w", err)
		}
	}
	all := sight{true, true}
	c.observe = observation{User: all, AI: all}
	if mode == "unified" || mode == "" && explicit { // files older than the key
		c.observe = observation{User: sight{Me: true}, AI: sight{Others: true}}
	}
	if raw := values["observation"]; raw != nil {
		if err := json.Unmarshal(raw, &c.observe); err != nil {
			return fmt.Errorf("observation: %w", err)
		}
	}
	var injection struct {
		Start json.RawMessage `json:"sessionStart"`
	}
	if raw := values["injection"]; raw != nil {
		if err := json.Unmarshal(raw, &injection); err != nil {
			return fmt.Errorf("injection: %w", err)
		}
	}
	if err := json.Unmarshal(injection.Start, &c.sections); err != nil { // also if it is "all"
		c.sections = []string{"summary", "peerRepresentation", "peerCard", "aiRepresentation", "aiCard"}
	}
	return nil
}

var version = lazyregexp.New(`/v\d+/*$`)

// connect determines the server, the key and the time limit.
func (c *config) connect(s provider.Source, root, host, values map[string]json.RawMessage) error {
	var endpoint struct {
		Base json.RawMessage `json:"baseUrl"`
	}
	_ = json.Unmarshal(root["endpoint"], &endpoint) // a form of other programs
	var section struct {
		Base    string          `json:"base_url"`
		Timeout json.RawMessage `json:"timeout"`
	}
	if s.Section != nil {
		if err := json.Unmarshal(s.Section, &section); err != nil {
			return fmt.Errorf("honcho in config.yaml: %w", err)
		}
	}
	c.base = cmp.Or(text(host["baseUrl"]), text(host["base_url"]), text(endpoint.Base), text(root["baseUrl"]), text(root["base_url"]),
		s.Getenv("HONCHO_BASE_URL"), s.Getenv("HONCHO_URL"), section.Base)
	own := text(values["apiKey"])
	c.key = secret.Value(cmp.Or(own, s.Getenv("HONCHO_API_KEY")))
	if text(values["enabled"]) == "false" {
		return fmt.Errorf("%s has enabled: false: set it to true, or choose another memory.provider", c.path)
	}
	if c.key == "" && c.base == "" {
		return errors.New("Honcho has no key: set HONCHO_API_KEY in .env, or baseUrl in honcho.json for a server of your own") //nolint:staticcheck // a name
	}
	if c.base == "" {
		c.base = "https://api.honcho.dev"
		if cmp.Or(text(values["environment"]), s.Getenv("HONCHO_ENVIRONMENT")) == "local" {
			c.base = "http://localhost:8000"
		}
	}
	c.base = strings.TrimRight(version().ReplaceAllString(c.base, ""), "/")
	if own == "" && local(c.base) {
		c.key = "local" // such a server needs none; that of the environment is for the cloud
	}
	for _, v := range []string{text(values["timeout"]), text(values["requestTimeout"]), s.Getenv("HONCHO_TIMEOUT"), text(section.Timeout)} {
		if n, err := strconv.ParseFloat(v, 64); err == nil && n > 0 {
			c.timeout = time.Duration(n * float64(time.Second))
			break
		}
	}
	return nil
}

// text returns a JSON value that is text, a number or a truth value, as text.
func text(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil || v == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(v))
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

// warnings names what the file has and is not used. Other programs share the file below
// ~/.honcho, so only the block of the host is ours there.
func (c *config) warnings(s provider.Source, root, host, values map[string]json.RawMessage) (list []string) {
	known := c.fields()
	ours := []map[string]json.RawMessage{host}
	if !strings.HasSuffix(c.path, filepath.Join(".honcho", "config.json")) {
		ours = append(ours, root)
	}
	for _, block := range ours {
		for _, name := range slices.Sorted(maps.Keys(block)) {
			if _, ok := known[name]; !ok && !slices.Contains(ignored, name) {
				list = append(list, fmt.Sprintf("%s: unknown key %s", c.path, name))
			}
		}
	}
	if n, _ := strconv.Atoi(text(values["dialecticDepth"])); n > 1 {
		list = append(list, c.path+": dialecticDepth: one pass is made")
	}
	if env := cmp.Or(text(values["environment"]), s.Getenv("HONCHO_ENVIRONMENT")); env != "" && env != "production" && env != "local" {
		list = append(list, fmt.Sprintf("%s: unknown environment %q, production is used", c.path, env))
	}
	return list
}
