package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"hermesd/agent/contextfile"
	"hermesd/agent/llm"
	"hermesd/agent/memory"
	"hermesd/agent/prompt"
	"hermesd/agent/skills"
	"hermesd/agent/tool"
	"hermesd/agent/tools/cronjob"
	memorytool "hermesd/agent/tools/memory"
	skilltools "hermesd/agent/tools/skills"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/gateway/turn"
)

// A promptInputs is what shapes the answers beside the model: the persona, memories,
// skills and the project.
type promptInputs struct {
	c         *config.Config
	home      string // of the daemon
	workspace string
	library   *skills.Library
	files     contextfile.Reader
	all       []llm.Tool // those of the daemon; set before the first session
	log       *zap.Logger
	words     i18n.Printer                                                      // says what people read; set before the first session
	jobs      func(context.Context, schedule.JobID) (schedule.Job, bool, error) // set before the first session

	mu   sync.Mutex // guards told
	told []skills.Problem
}

func newPromptInputs(c *config.Config, home string, log *zap.Logger) (*promptInputs, error) {
	m := &promptInputs{c: c, home: home, workspace: c.Workspace(home), log: log}
	var err error
	m.library, err = Library(c, home)
	if err != nil {
		return nil, err
	}
	if written, err := contextfile.WriteStarterSoul(home, prompt.Identity(c.Agent.Name)); err != nil {
		log.Warn("SOUL.md", zap.Error(err))
	} else if written {
		log.Info("wrote a starter SOUL.md: edit it to say who the agent is", zap.String("path", filepath.Join(home, "SOUL.md")))
	}
	for _, s := range m.memories("", "").MisplacedFiles(home) {
		log.Warn(s.String())
	}
	return m, nil
}

// memories is the store of memories that somebody on a platform has.
func (m *promptInputs) memories(p chat.Platform, person string) *memory.Store {
	return Memories(m.c, m.home, p, person)
}

// targets are the stores that are in use.
func (m *promptInputs) targets() (ts []memory.Target) {
	if m.c.Memory.MemoryEnabled {
		ts = append(ts, memory.Notes)
	}
	if m.c.Memory.UserProfileEnabled {
		ts = append(ts, memory.User)
	}
	return ts
}

// remembers reports whether the session may have the memories in its prompt.
func (m *promptInputs) remembers(r session.Record) bool {
	return !r.Shared && (r.OwnersOnly || m.c.Memory.Scope == "user")
}

// tools are those that use what the mind has. of finds the session of a call.
func (m *promptInputs) tools(of func(context.Context, session.ID) (session.Record, bool, error)) []tool.Tool {
	ts := skilltools.Tools(skilltools.Options{
		Library: m.library,
		Filter:  func(id string) skills.Filter { return m.offers(of, session.ID(id)) },
		Manage:  func(context.Context, string, string) error { return nil }, // who may is decided at the call
	})
	if len(m.targets()) > 0 {
		ts = append(ts, scopedMemory{m: m, of: of, like: memorytool.New(m.memories("", ""), memorytool.Options{Targets: m.targets()})})
	}
	return ts
}

// scopedMemory is the memory tool of whoever speaks.
type scopedMemory struct {
	m    *promptInputs
	of   func(context.Context, session.ID) (session.Record, bool, error)
	like tool.Tool
}

// Spec implements tool.Tool.
func (r scopedMemory) Spec() tool.Spec { return r.like.Spec() }

// Run implements tool.Tool.
func (r scopedMemory) Run(ctx context.Context, c tool.Call) (string, error) {
	rec, ok, err := r.of(ctx, session.ID(c.Session))
	switch {
	case err != nil:
		return "", fmt.Errorf("the memories of this conversation cannot be found: %w", err)
	case !ok:
		return "", errors.New("the memories of this conversation cannot be found: it is not stored")
	}
	s := r.m.memories(rec.Address.Platform, rec.Owner)
	refused := func(t memory.Target, res memory.Result) {
		r.m.log.Warn("a memory is not kept: "+res.Error, zap.String("path", s.Path(t)))
	}
	return memorytool.New(s, memorytool.Options{Targets: r.m.targets(), Refused: refused}).Run(ctx, c)
}

// toolDenied says why somebody may not use a tool.
func (m *promptInputs) toolDenied(r session.Record, by access.Principal, name string) error {
	if name == memorytool.Name && !m.remembers(r) {
		return fmt.Errorf("the memories belong to the owner, and are not used in this conversation")
	}
	if name == cronjob.Name && r.Address.Platform == chat.Cron && !m.c.Cron.AllowAgentScheduling {
		return errors.New("a scheduled prompt does not schedule others")
	}
	need := access.ToolLevel(name)
	if name == memorytool.Name && m.c.Memory.Scope == "user" {
		need = access.Guest
	}
	if by.Level < need {
		return fmt.Errorf("%s is for people of level %s; who asks is %s", name, need, by.Level)
	}
	return nil
}

// inputs puts into in what the files of the home and of the project say, and
// returns what the person should know of it.
func (m *promptInputs) inputs(in *prompt.Inputs, r session.Record) (notes []string) {
	note := func(ns []contextfile.Note) {
		for _, n := range ns {
			m.log.Warn(n.Text)
			if n.Level == contextfile.Chat {
				notes = append(notes, m.words.LocalizeError(i18n.Errorf(n.Format, n.Args...)))
			}
		}
	}
	soul, project := m.sources(r)
	if soul {
		text, ns := m.files.Soul(m.home)
		in.Soul = text
		note(ns)
	}
	if project != "" {
		p := m.files.Project(project)
		in.ContextFiles = p.Text
		note(p.Notes)
	}
	if r.Address.Platform == chat.Cron {
		if _, note := m.folder(schedule.JobID(r.Address.Chat)); note != "" {
			in.Guidance = append(in.Guidance, note)
		}
	}
	if m.remembers(r) {
		m.addMemories(in, m.memories(r.Address.Platform, r.Owner))
	}
	catalog := m.library.Catalog()
	m.logSkillProblems(catalog.Problems())
	in.Skills = catalog.Index(m.filter(in.Tools))
	return notes
}

// sources says whether SOUL.md is in the prompt of a session, and from which
// folder project files are: "" for none, which a scheduled prompt has that names
// no folder.
func (m *promptInputs) sources(r session.Record) (soul bool, project string) {
	job, dir := r.Address.Platform == chat.Cron, m.workspace
	if job {
		dir = m.folderOfJob(schedule.JobID(r.Address.Chat))
	}
	soul, files := prompt.Sources(m.c.Agent.SkipContextFiles || dir == "", job && m.c.Agent.LoadSoul)
	if !files {
		return soul, ""
	}
	return soul, dir
}

// folderOfJob returns the folder that a scheduled prompt names, "" for none. Who
// is no owner may name one in the workspace only: what stands there is read.
func (m *promptInputs) folderOfJob(id schedule.JobID) string {
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	j, _, err := m.jobs(ctx, id)
	why := "it is not in the workspace, and who made the prompt is no owner"
	if err != nil {
		why = err.Error()
	} else if j.Workdir == "" || j.Creator.Level >= access.Owner || within(m.workspace, j.Workdir) {
		return j.Workdir
	}
	m.log.Warn("the project files of a scheduled prompt are left out", zap.String("job", string(id)), zap.String("path", j.Workdir), zap.String("err", why))
	return ""
}

// within reports whether dir is in root once links are followed.
func within(root, dir string) bool {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return false
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false
	}
	below, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(below)
}

// logSkillProblems has the operator know what is wrong with the skills: each problem once, as
// long as it lasts.
func (m *promptInputs) logSkillProblems(ps []skills.Problem) {
	m.mu.Lock()
	var news []skills.Problem
	for _, p := range ps {
		if !slices.Contains(m.told, p) {
			news = append(news, p)
		}
	}
	m.told = ps
	m.mu.Unlock()
	for _, p := range news {
		m.log.Warn("skill: "+p.Text, zap.String("path", p.Path))
	}
}

// offers is the filter of a session that has begun.
func (m *promptInputs) offers(of func(context.Context, session.ID) (session.Record, bool, error), id session.ID) skills.Filter {
	f := skills.Filter{Disabled: m.c.Skills.Disabled}
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	if rec, ok, err := of(ctx, id); err == nil && ok {
		return m.filter(tool.Select(slices.Clone(m.all), toolsetsOn(m.c, rec.Address)))
	}
	return f
}

// storePatience bounds one question to the store.
const storePatience = 5 * time.Second

func (m *promptInputs) filter(tools []llm.Tool) skills.Filter {
	f := skills.Filter{Disabled: m.c.Skills.Disabled, Tools: []string{}, Toolsets: tool.ToolsetsOf(tools)}
	for _, t := range tools {
		f.Tools = append(f.Tools, t.Name)
	}
	return f
}

// addMemories puts the snapshots of s into in.
func (m *promptInputs) addMemories(in *prompt.Inputs, s *memory.Store) {
	for _, t := range m.targets() {
		text, blocked, err := s.Snapshot(t)
		if err != nil {
			m.log.Error("memories are left out of the prompt", zap.String("file", t.File()), zap.Error(err))
		}
		for _, b := range blocked {
			m.log.Warn(b.String())
		}
		if t == memory.User {
			in.UserProfile = text
		} else {
			in.Memory = text
		}
	}
}

// refresh puts the memories as they are now into a prompt that breaks anyway.
func (m *promptInputs) refresh(r session.Record, p prompt.Prefix) prompt.Prefix {
	if !m.remembers(r) {
		return p
	}
	var in prompt.Inputs
	m.addMemories(&in, m.memories(r.Address.Platform, r.Owner))
	return p.With(prompt.LayerMemory, in.Memory).With(prompt.LayerUserProfile, in.UserProfile)
}

// note reminds the agent, now and then, to keep what it has learnt.
func (m *promptInputs) note(r session.Record) string {
	every := m.c.Memory.NudgeInterval
	if every <= 0 || r.Turns == 0 || r.Turns%every != 0 || !m.remembers(r) || len(m.targets()) == 0 {
		return ""
	}
	return fmt.Sprintf("This conversation has had %d turns. If something in it will still matter in another one and is not kept yet, keep it with the memory tool; if not, do nothing.", r.Turns)
}

// skill returns what /name args says to the model in a session, if there is such
// a skill.
func (m *promptInputs) skill(id session.ID, name, args string) (string, bool) {
	s, ok := m.library.Catalog().Find(name)
	if !ok {
		return "", false
	}
	why := s.Hidden(skills.Filter{Disabled: m.c.Skills.Disabled})
	v, err := m.library.View(s.Name, "")
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		m.log.Warn("skill", zap.String("name", s.Name), zap.String("err", why))
		return fmt.Sprintf("[The user asks for the skill %s, which cannot be used: %s. Say so, and help without it.]\n%s", s.Name, why, args), true
	}
	return v.Expanded(string(id)).Invocation(args), true
}

// A discovery logs what a contextfile.Discovery leaves out.
type discovery struct {
	*contextfile.Discovery
	log *zap.Logger
}

// After implements turn.Discovery.
func (d discovery) After(input json.RawMessage) string {
	text, notes := d.Discovery.AfterTool(input)
	for _, n := range notes {
		d.log.Warn(n.Text)
	}
	return text
}

// discover returns what finds the project files of folders that a session comes
// to later.
func (m *promptInputs) discover() turn.Discovery {
	if m.c.Agent.SkipContextFiles {
		return nil
	}
	return discovery{contextfile.NewDiscovery(m.workspace), m.log}
}

// personalities are the built-in texts and those of the configuration.
func personalities(c *config.Config) map[string]string {
	all := prompt.Personalities()
	for name, text := range c.Agent.Personalities {
		all[strings.ToLower(name)] = text
	}
	return all
}
