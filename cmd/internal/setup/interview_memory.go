package setup

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/secret"
)

// none is the answer for no external memory.
const none = "none"

// memory asks for the external memory, and tries it.
func (i *interview) memory(ctx context.Context) error {
	m, now := Memory{}, ""
	if i.s.Config != nil {
		now = i.s.Config.Memory.Provider
	}
	if i.answers.Memory != nil {
		m = *i.answers.Memory
		now = m.Provider
	}
	f := &Field{
		Kind: Select, Title: "External memory (optional)", Value: cmp.Or(now, none),
		Help: "It finds what fits a message in what was said in any earlier conversation, in addition to the built-in memory.",
	}
	if i.only && now == "" && i.answers.Memory == nil {
		f.Value = holographic
	}
	for _, v := range memoryServices() {
		f.Options = append(f.Options, Option{v.name, v.label})
	}
	f.Options = append(f.Options, Option{none, "None: only the built-in memory; nothing is sent"})
	if err := i.a.Ask(ctx, Page{Fields: []*Field{f}}); err != nil {
		return err
	}
	if f.Value == none {
		i.answers.Memory = &Memory{}
		return nil
	}
	if m.Provider != f.Value {
		m = Memory{Provider: f.Value}
	}
	v := memoryServiceOf(m.Provider)
	perID := false
	for again := true; again; {
		if err := i.memoryPage(ctx, v, &m); err != nil {
			return err
		}
		var err error
		if again, err = i.verify(ctx, func(ctx context.Context) (string, error) {
			t, _, err := i.s.TryMemory(ctx, m)
			perID = t.PerID
			for _, w := range t.Warnings {
				i.a.Say("Warning: " + w)
			}
			return "It " + t.Text() + ".", err
		}); err != nil {
			return err
		}
	}
	i.answers.Memory = &m
	i.a.Say(i.s.OwnersText(i.answers, perID))
	return nil
}

// memoryPage asks for what a provider needs.
func (i *interview) memoryPage(ctx context.Context, v memoryService, m *Memory) error {
	page := Page{Title: v.name, Text: v.about}
	f, _, err := i.s.memoryFile(v)
	if err != nil {
		return err
	}
	var address, key *Field
	if v.address.variable != "" {
		address = i.addressField(f, v, m)
		page.Fields = append(page.Fields, address)
	}
	if v.key.variable != "" {
		_, where := i.s.find(f, v.key)
		if f.exists && where == f.path {
			where = filepath.Base(where)
		}
		replace, err := i.askReplace(ctx, "a key for "+v.name, where, m.Key)
		if err != nil {
			return err
		}
		if replace {
			key = &Field{Kind: Secret, Title: "Key of the memory", Help: "It is never shown.", Value: m.Key.Reveal(), Check: required(checkKey)}
			if !v.needsKey {
				key.Help = "Leave it empty if the server wants none. " + key.Help
				key.Check = func(s string) error { return checkKey(strings.TrimSpace(s)) }
			}
			page.Fields = append(page.Fields, key)
		}
	}
	owners := i.ownerFields(m)
	for _, p := range platforms.All() {
		if f := owners[p.Platform]; f != nil {
			page.Fields = append(page.Fields, f)
		}
	}
	people, mirror, extract := i.memoryChoices(m)
	page.Fields = append(page.Fields, people, mirror)
	if v.name == holographic {
		page.Fields = append(page.Fields, extract)
	}
	if err := i.a.Ask(ctx, page); err != nil {
		return err
	}
	if address != nil {
		url := strings.TrimRight(strings.TrimSpace(address.Value), "/")
		m.URL = &url
	}
	if key != nil {
		m.Key = secret.Value(strings.TrimSpace(key.Value))
	}
	i.takeOwners(m, owners)
	yes := mirror.Value == "yes"
	m.People, m.Mirror = people.Value, &yes
	if v.name == holographic {
		yes := extract.Value == "yes"
		m.AutoExtract = &yes
	}
	return nil
}

// ownerFields returns the questions for the owners on the platforms that are configured and
// were not asked about in this interview.
func (i *interview) ownerFields(m *Memory) map[chat.Platform]*Field {
	fields := make(map[chat.Platform]*Field)
	for _, p := range platforms.All() {
		if _, asked := i.answers.Platforms[p.Platform]; asked || !i.s.configured(p.Platform) {
			continue
		}
		now := i.s.ownersNow(p.Platform)
		f := &Field{
			Kind: Text, Title: "Owners on " + p.Name, Value: strings.Join(now, ", "),
			Help: "The ids of the people whose memory is the owner's, and who may do everything, such as " + p.Person.Like + "; several with commas. " + p.Person.Find,
		}
		if ids := m.Owners[p.Platform]; len(ids) > 0 {
			f.Value = strings.Join(ids, ", ")
		}
		f.Check = func(s string) error { return checkOwners(p.Platform, Split(s)) }
		if len(now) > 0 {
			f.Check = required(f.Check)
		}
		if len(i.s.Config.Access.Owners) > 0 {
			f.Help += " Who is in access.owners stays an owner."
		}
		fields[p.Platform] = f
	}
	return fields
}

// takeOwners takes the answers to ownerFields that differ from what is configured.
func (i *interview) takeOwners(m *Memory, fields map[chat.Platform]*Field) {
	m.Owners = make(map[chat.Platform][]string)
	for p, f := range fields {
		ids := Split(f.Value)
		if !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(i.s.ownersNow(p)))) {
			m.Owners[p] = ids
		}
	}
}

// addressField returns the question for the address of a provider's server.
func (i *interview) addressField(f file, v memoryService, m *Memory) *Field {
	a := &Field{Kind: Text, Title: "Address of the memory's server", Check: required(checkAddress)}
	if a.Value, _ = i.s.find(f, v.address); a.Value == "" {
		a.Value = v.server
	}
	if m.URL != nil {
		a.Value = *m.URL
	}
	if v.cloud {
		a.Help = "Leave it empty for its cloud."
		a.Check = func(s string) error {
			if s = strings.TrimSpace(s); s == "" {
				return nil
			}
			return checkAddress(s)
		}
	}
	return a
}

// memoryChoices returns the questions that every provider has, and that of Holographic.
func (i *interview) memoryChoices(m *Memory) (people, mirror, extract *Field) {
	who, mirrors, extracts := "owners", true, false
	if c := i.s.Config; c != nil {
		who, mirrors, extracts = c.Memory.People, c.Memory.Mirror, c.Plugins.Holographic.AutoExtract
	}
	who = cmp.Or(m.People, who)
	if m.Mirror != nil {
		mirrors = *m.Mirror
	}
	if m.AutoExtract != nil {
		extracts = *m.AutoExtract
	}
	people = &Field{
		Kind: Select, Title: "Whose words does it get?", Value: who, Help: "Everybody but the owners has a memory of their own.",
		Options: []Option{{"owners", "Owners"}, {"members", "Owners and members"}, {"everyone", "Guests too"}},
	}
	mirror = yesNo("Does it get the entries of the built-in memory too?", "MEMORY.md and USER.md; what is removed there is removed at the provider.", mirrors)
	extract = yesNo("Does it store what messages state?", "\"I prefer …\", \"we decided …\" and the like, in English only. Otherwise only tools and the built-in memory store facts.", extracts)
	return people, mirror, extract
}

func yesNo(title, help string, now bool) *Field {
	return &Field{Kind: Select, Title: title, Help: help, Value: map[bool]string{false: "no", true: "yes"}[now], Options: []Option{{"yes", "Yes"}, {"no", "No"}}}
}
