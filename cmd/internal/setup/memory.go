package setup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// A Memory selects the external memory.
type Memory struct {
	Provider string       // "" for none
	URL      *string      // of a server of one's own, "" for the provider's cloud; nil keeps it
	Key      secret.Value // "" keeps the existing one
	// Owners are the IDs of the owners on platforms that are configured; a missing or empty
	// one keeps the existing ones.
	Owners      map[chat.Platform][]string
	People      string // "" keeps it
	Mirror      *bool  // nil keeps it
	AutoExtract *bool  // of Holographic; nil keeps it
}

// holographic is the provider that is a file of this machine.
const holographic = "holographic"

// A memoryService is a provider as a setup asks for it.
type memoryService struct {
	name, label, about string
	server             string    // usual address of a server of one's own; "": its cloud is the usual place
	cloud              bool      // it has a cloud
	files              []string  // its own files, of which it reads the first that exists; a relative one is in the home
	key, address, mode lookup    // a zero lookup is not asked for
	needsKey           bool      // also for a server of one's own
	modes              [2]string // in its cloud, on a server of one's own
	makesFiles         bool      // in the home, when it is asked
}

// A lookup says where a provider reads a setting: in its own file, else in a variable,
// else in config.yaml.
type lookup struct {
	keys     []string // of its file
	variable string
	alone    bool     // the variable counts only without a file
	section  []string // path in config.yaml; nil: none
}

// memoryServices returns the providers in the order in which they are recommended.
func memoryServices() []memoryService {
	return []memoryService{
		{
			name: holographic, makesFiles: true, label: "Holographic (recommended): a file on this machine; no account, no bill; finds words, not meanings",
			about: "It finds words, not meanings: \"holiday\" does not find \"vacation\". Its two tools stand in every prompt.",
		},
		{
			name: "openviking", label: "OpenViking: your server; finds meanings", server: "http://127.0.0.1:1933",
			about: "Start its server first. It finds what was said after a conversation has ended. Other people than owners need a root key.",
			key:   lookup{variable: "OPENVIKING_API_KEY"}, address: lookup{variable: "OPENVIKING_URL"},
		},
		{
			name: "hindsight", label: "Hindsight: your server, or its cloud; finds meanings", server: "http://localhost:8888", cloud: true,
			about: "Start its API server first, or make a key at https://ui.hindsight.vectorize.io for its cloud, which has its price.",
			files: []string{"hindsight/config.json", "~/.hindsight/config.json"},
			key:   lookup{keys: []string{"apiKey", "api_key"}, variable: "HINDSIGHT_API_KEY"}, address: lookup{keys: []string{"api_url"}, variable: "HINDSIGHT_API_URL"},
			mode: lookup{keys: []string{"mode"}, variable: "HINDSIGHT_MODE", alone: true}, modes: [2]string{"cloud", "local_external"},
		},
		{
			name: "honcho", label: "Honcho: its cloud, or your server; conclusions about people; its model reasons with each recall", cloud: true,
			about: "Its cloud gets what the people write, and costs for each recall. A grant that is in its file is used.",
			files: []string{"honcho.json", "~/.hermes/honcho.json", "~/.honcho/config.json"},
			key:   lookup{keys: []string{"apiKey"}, variable: "HONCHO_API_KEY"}, address: lookup{keys: []string{"baseUrl", "base_url"}, variable: "HONCHO_BASE_URL"},
		},
		{
			name: "mem0", label: "Mem0: its cloud, or your server; a model call for each turn", cloud: true,
			about: "Its cloud gets what the people write, and costs for each turn. Keys: https://app.mem0.ai.", files: []string{"mem0.json"},
			key: lookup{keys: []string{"api_key"}, variable: "MEM0_API_KEY"}, address: lookup{keys: []string{"host"}, variable: "MEM0_HOST"},
			mode: lookup{keys: []string{"mode"}, variable: "MEM0_MODE"}, modes: [2]string{"platform", "platform"},
		},
		{
			name: "supermemory", label: "Supermemory: its cloud, or your server; found minutes later", cloud: true, needsKey: true,
			about: "Its cloud gets what the people write, and has its price.", files: []string{"supermemory.json"},
			key: lookup{variable: "SUPERMEMORY_API_KEY"}, address: lookup{keys: []string{"base_url"}, variable: "SUPERMEMORY_BASE_URL"},
		},
		{
			name: "retaindb", label: "RetainDB: its cloud, or your server", cloud: true, needsKey: true,
			about: "Its cloud gets what the people write and SOUL.md, and has its price. Keys: https://www.retaindb.com.",
			key:   lookup{variable: "RETAINDB_API_KEY"}, address: lookup{variable: "RETAINDB_BASE_URL", section: []string{"memory", "retaindb", "base_url"}},
		},
		{
			name: "byterover", makesFiles: true, label: "ByteRover: files on this machine; a model call for each turn, of up to two minutes; recall is one turn late",
			about: "First: npm install -g byterover-cli@3.14.0, then brv providers connect. Texts go to the model of brv. A search takes 1 to 4 seconds, so it serves the next turn.",
		},
	}
}

// MemoryProviders returns the names of the memory providers, the recommended one first.
func MemoryProviders() (names []string) {
	for _, v := range memoryServices() {
		names = append(names, v.name)
	}
	return names
}

// memoryServiceOf returns the provider called name; the zero value if there is none.
func memoryServiceOf(name string) memoryService {
	all := memoryServices()
	if i := slices.IndexFunc(all, func(v memoryService) bool { return v.name == name }); i >= 0 {
		return all[i]
	}
	return memoryService{}
}

// memoryFile returns the file that a provider reads, and the name by which it does; the
// zero file if it has none.
func (s *State) memoryFile(v memoryService) (f file, name string, err error) {
	for _, name = range v.files {
		rest, users := strings.CutPrefix(name, "~/")
		home := s.Home
		if users {
			home = cmp.Or(s.variable("HOME"), s.variable("USERPROFILE"))
		}
		if home == "" {
			continue
		}
		name = filepath.Join(home, filepath.FromSlash(rest))
		if f, err = read(name); err != nil || f.exists {
			return f, name, err
		}
	}
	return file{}, "", nil
}

// find returns a setting of a provider, and where it is set; "" if it is not. f is the
// provider's file.
func (s *State) find(f file, l lookup) (value, where string) {
	if f.exists {
		if o, err := settings.Parse(f.path, f.content); err == nil {
			value = o.Text(l.keys...)
		}
	}
	place := ""
	if l.variable != "" && (!l.alone || !f.exists) {
		place = s.secretLocation(l.variable)
	}
	switch {
	case value != "":
		return value, f.path
	case place != "":
		return s.variable(l.variable), place
	case l.section != nil && s.doc.Text(l.section...) != "":
		return s.doc.Text(l.section...), filepath.Base(s.conf.path)
	}
	return "", ""
}

// memory plans the external memory. Without one, what else is set stays.
func (p *Plan) memory(m Memory) {
	p.value(m.Provider, "memory", "provider")
	v := memoryServiceOf(m.Provider)
	if v.name == "" {
		return
	}
	var err error
	if p.own, p.ownName, err = p.s.memoryFile(v); err == nil && p.own.exists {
		_, err = settings.Parse(p.own.path, p.own.content)
	}
	if err != nil {
		p.problem("memory.provider", "%v", err)
		return
	}
	p.ownNew = p.own.content
	if m.URL != nil && v.address.variable != "" {
		p.look(v.address, *m.URL, false)
		if mode := v.modes[min(len(*m.URL), 1)]; mode != "" {
			now, _ := p.s.find(p.own, v.mode)
			if cmp.Or(now, v.modes[0]) != mode {
				p.look(v.mode, mode, false)
			}
		}
	}
	if m.Key != "" {
		p.look(v.key, m.Key.Reveal(), true)
	}
	c := p.s.Config
	if m.People != "" && (c == nil || c.Memory.People != m.People) {
		p.set(m.People, "memory", "people")
	}
	if m.Mirror != nil && (c == nil || c.Memory.Mirror != *m.Mirror) {
		p.switchTo(*m.Mirror, "memory", "mirror")
	}
	if m.AutoExtract != nil && (c == nil || c.Plugins.Holographic.AutoExtract != *m.AutoExtract) {
		p.switchTo(*m.AutoExtract, "plugins", "hermes-memory-store", "auto_extract")
	}
}

// look plans a setting of a provider: in its file if it is there, because that comes
// first, else in config.yaml if it is there, else in .env.
func (p *Plan) look(l lookup, value string, hidden bool) {
	if now, _ := p.s.find(p.own, l); now == value {
		return
	}
	if p.own.exists {
		o, err := settings.Parse(p.own.path, p.ownNew)
		if err != nil {
			p.problem("memory.provider", "%v", err)
			return
		}
		i := slices.IndexFunc(l.keys, func(key string) bool { return o.Text(key) != "" })
		if i >= 0 || l.alone {
			p.inFile(l.keys[max(i, 0)], value, o.Text(l.keys[max(i, 0)]), hidden)
			return
		}
	}
	switch {
	case l.section != nil && p.s.variable(l.variable) == "":
		p.value(value, l.section...)
	case hidden:
		p.secret(l.variable, secret.Value(value))
	default:
		p.variable(l.variable, value, cmp.Or(value, "(empty)"), p.vars[l.variable])
	}
}

// inFile plans a key of the provider's file.
func (p *Plan) inFile(key, value, old string, hidden bool) {
	changed, err := setJSON(p.ownNew, key, value)
	if err != nil {
		p.problems = append(p.problems, config.Problem{File: p.own.path, Key: key, Text: err.Error()})
		return
	}
	p.ownNew = changed
	c := Change{File: p.own.path, Key: key, New: cmp.Or(value, "(empty)"), Old: old}
	if hidden {
		c.New = masked
		if old != "" {
			c.Old = masked
		}
	}
	p.Changes = append(p.Changes, c)
}

// setJSON sets a key of a JSON object to a string. All other bytes stay.
func setJSON(data []byte, key, value string) ([]byte, error) {
	body := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("this is not a JSON object")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err //nolint:wrapcheck // a string is always encoded
	}
	start := d.InputOffset()
	first := start + int64(max(bytes.IndexByte(body[start:], '"'), 0))
	from, to := int64(-1), int64(-1)
	empty := true
	for d.More() {
		name, err := d.Token()
		var v json.RawMessage
		if err == nil {
			err = d.Decode(&v)
		}
		if err != nil {
			return nil, fmt.Errorf("this is not a JSON object: %w", err)
		}
		if empty = false; name == key { // the last one counts
			to = d.InputOffset()
			from = to - int64(len(v))
		}
	}
	if from >= 0 {
		return slices.Concat(body[:from], text, body[to:]), nil
	}
	name, err := json.Marshal(key)
	if err != nil {
		return nil, err //nolint:wrapcheck // a string is always encoded
	}
	entry := slices.Concat(name, []byte(": "), text)
	if !empty {
		entry = slices.Concat(entry, []byte(","), body[start:first])
	} else {
		first = start
	}
	return slices.Concat(body[:first], entry, body[first:]), nil
}

// Time limits of a trial.
const (
	checkTimeout  = 15 * time.Second
	recallTimeout = 30 * time.Second
)

// A Trial is how a provider has answered.
type Trial struct {
	Place         string // where the data is
	Warnings      []string
	Health        provider.Health
	Check, Recall time.Duration // that calls took; Recall is 0 if the provider's mode has none
	PerID         bool          // each ID of an owner is a person of its own there
}

// Text returns the trial as one line.
func (t Trial) Text() string {
	text := fmt.Sprintf("answers (%s, %d ms)", t.Place, t.Check.Milliseconds())
	if t.Recall > 0 {
		text += fmt.Sprintf(", and a recall takes %d ms", t.Recall.Milliseconds())
	}
	if t.Health.Version != "" {
		text += "; version " + t.Health.Version
	}
	if t.Health.Detail != "" {
		text += "; " + t.Health.Detail
	}
	return text
}

// TryMemory asks a provider as m configures it: a call that needs its key, and a recall of
// an owner. Nothing is written. usable is false if m is no configuration of a provider.
// Its error never contains the key.
func (s *State) TryMemory(ctx context.Context, m Memory) (t Trial, usable bool, err error) {
	if memoryServiceOf(m.Provider).name == "" {
		return t, false, fmt.Errorf("there is no memory provider %q; there are %s", m.Provider, strings.Join(MemoryProviders(), ", "))
	}
	p, err := s.plan(Answers{Memory: &m})
	if err == nil && len(p.problems) > 0 {
		err = &config.Error{Problems: p.problems}
	}
	if err != nil {
		return t, false, err
	}
	opened, err := p.openMemory()
	if err != nil {
		return t, false, err
	}
	defer opened.close()
	about := opened.p.About()
	t = Trial{Place: opened.place, Warnings: opened.warnings, PerID: about.PerID}
	took := func(limit time.Duration, do func(context.Context) error) time.Duration {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		began := time.Now()
		if err = do(ctx); err != nil {
			err = errors.New(opened.mask(err.Error()))
		}
		return max(time.Since(began), 1)
	}
	t.Check = took(checkTimeout, func(ctx context.Context) (err error) {
		t.Health, err = opened.p.Check(ctx)
		return err //nolint:wrapcheck // for people
	})
	if err != nil || about.NoRecall {
		return t, true, err
	}
	t.Recall = took(recallTimeout, func(ctx context.Context) error {
		_, err := opened.p.Recall(ctx, s.ownersScope(m), "What do you know about me?")
		return err //nolint:wrapcheck // for people
	})
	if err != nil {
		err = fmt.Errorf("a recall fails: %w", err)
	}
	return t, true, err
}

// An openedMemory is a provider of a plan.
type openedMemory struct {
	p        provider.Provider
	place    string
	warnings []string
	mask     func(string) string
	dir      string // temporary; "": none
}

func (o openedMemory) close() {
	_ = o.p.Close() // nothing was stored
	_ = os.RemoveAll(o.dir)
}

// openMemory opens the planned provider. Nothing may be written yet: what is planned for
// its file is passed in memory, and one that makes files gets an empty temporary home,
// except a file of Holographic that exists.
func (p *Plan) openMemory() (o openedMemory, err error) {
	if p.s.o.OpenMemory == nil {
		return o, errors.New("a memory provider cannot be tried here")
	}
	c, r, err := p.load()
	if err != nil {
		return o, err
	}
	o.mask = r.Secrets.Mask
	v := memoryServiceOf(p.answers.Memory.Provider)
	planned := map[string][]byte{}
	if p.own.exists {
		planned[p.ownName] = p.ownNew
	}
	open := func(home string) (err error) {
		o.p, o.warnings, err = p.s.o.OpenMemory(v.name, c, r, home, planned)
		return err
	}
	if !v.makesFiles || v.name == holographic {
		if err := open(p.s.Home); err != nil {
			return o, err
		}
		o.place = o.p.About().Place
		if _, missing := os.Stat(o.place); !v.makesFiles || missing == nil {
			return o, nil
		}
		_ = o.p.Close() // it was not used
		c.Plugins.Holographic.DBPath = ""
	}
	if o.dir, err = os.MkdirTemp("", "hermesd-setup-"); err != nil {
		return o, fmt.Errorf("the memory cannot be tried: %w", err)
	}
	if err = open(o.dir); err != nil {
		return o, errors.Join(err, os.RemoveAll(o.dir))
	}
	o.place = cmp.Or(o.place, strings.Replace(o.p.About().Place, o.dir, p.s.Home, 1))
	return o, nil
}

// ownersScope returns the scope of an owner of the configuration or of m.
func (s *State) ownersScope(m Memory) provider.Scope {
	scope := provider.Scope{Session: "setup", Key: "agent-main-setup"}
	for _, p := range platforms.All() {
		ids := m.Owners[p.Platform]
		if len(ids) == 0 {
			ids = s.ownersNow(p.Platform)
		}
		if len(ids) > 0 {
			scope.Platform, scope.UserID, scope.Chat = string(p.Platform), ids[0], ids[0]
			break
		}
	}
	return scope
}

// OwnersText says who the owners are to a provider; a are answers that are not written yet.
func (s *State) OwnersText(a Answers, perID bool) string {
	var ids []string
	if s.Config != nil {
		ids = append(ids, s.Config.Access.Owners...)
	}
	logins := a.logins()
	for _, p := range platforms.All() {
		owners := s.owners(p.Platform)
		if l := logins[p.Platform].Owners; len(l) > 0 {
			owners = l
		}
		for _, id := range owners {
			ids = append(ids, p.Name+" "+id)
		}
	}
	if user, _ := s.onlyUser(); user != "" && len(ids) == 0 {
		ids = []string{user}
	}
	switch {
	case len(ids) == 0:
		return "No owner is configured yet. An owner that is added later is the owner to this provider too."
	case perID:
		return "Owners: " + strings.Join(ids, ", ") + ". To this provider each of them is a person of their own."
	}
	return "Owners: " + strings.Join(ids, ", ") + ". To this provider they are one person."
}
