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
	"hermesd/gateway/conversation"
	"hermesd/gateway/i18n"
	externalmemory "hermesd/gateway/memory"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/storage/bolt"
)

// promptInputs collects the parts of the system prompt that come from files:
// persona, memories, skills and context files. It also builds the tools that read
// and write them.
type promptInputs struct {
	c           *config.Config
	home        string // the daemon's home directory
	workspace   string
	library     *skills.Library
	files       contextfile.Reader
	enforcement prompt.Enforcement
	log         *zap.Logger
	printer     i18n.Printer // translates notes for users
	store       *bolt.Store
	external    *externalmemory.Service
	access      *accessGate

	mu             sync.Mutex // guards loggedProblems
	loggedProblems []skills.Problem
}

// newPromptInputs returns the inputs of the system prompt, which write a starter SOUL.md if
// there is none.
func (a *App) newPromptInputs() (*promptInputs, error) {
	c, home, log := a.opts.Config, a.opts.Home, a.opts.Log.Named("prompt")
	m := &promptInputs{
		c: c, home: home, workspace: c.Workspace(home), log: log, printer: a.printer, external: a.memory, access: &a.access, store: a.store,
	}
	var err error
	if m.library, err = Library(c, home); err != nil {
		return nil, err
	}
	if m.enforcement, err = prompt.ParseEnforcement(c.Agent.ToolUseEnforcement...); err != nil {
		return nil, keyError("agent.tool_use_enforcement", err)
	}
	if written, err := contextfile.WriteStarterSoul(home, prompt.Identity(c.Agent.Name), prompt.Identity("")); err != nil {
		log.Warn("cannot write starter SOUL.md", zap.Error(err))
	} else if written {
		log.Info("wrote a starter SOUL.md", zap.String("path", filepath.Join(home, "SOUL.md")))
	}
	for _, s := range m.memories("", "").MisplacedFiles(home) {
		log.Warn(s.String())
	}
	return m, nil
}

// memories returns the memory store of a user on a platform.
func (m *promptInputs) memories(p chat.Platform, person string) *memory.Store {
	return Memories(m.c, m.home, p, person)
}

// memoryTargets returns the memory stores that are enabled.
func (m *promptInputs) memoryTargets() (ts []memory.Target) {
	if m.c.Memory.MemoryEnabled {
		ts = append(ts, memory.Notes)
	}
	if m.c.Memory.UserProfileEnabled {
		ts = append(ts, memory.User)
	}
	return ts
}

// mayUseMemories reports whether the prompt of the session may contain memories.
func (m *promptInputs) mayUseMemories(r session.Record) bool {
	return !r.Shared && (r.OwnersOnly || m.c.Memory.Scope == "user")
}

// tools returns the tools for skills and memories.
func (m *promptInputs) tools() []tool.Tool {
	ts := skilltools.Tools(skilltools.Options{
		Library: m.library, Filter: func(c tool.Call) skills.Filter { return m.skillFilter(c.Tools.Tools()) }, Manage: !m.c.Skills.WriteApproval,
	})
	if len(m.memoryTargets()) > 0 && !m.c.Memory.WriteApproval {
		ts = append(ts, scopedMemory{m, m.memoryTool(m.memories("", ""))})
	}
	return ts
}

// scopedMemory is the memory tool. Each call uses the memory store of the session's
// owner.
type scopedMemory struct {
	m        *promptInputs
	template tool.Tool
}

// Spec implements tool.Tool.
func (r scopedMemory) Spec() tool.Spec { return r.template.Spec() }

// Run implements tool.Tool.
func (r scopedMemory) Run(ctx context.Context, c tool.Call) (string, error) {
	rec, ok, err := r.m.store.SessionByID(ctx, session.ID(c.Session))
	switch {
	case err != nil:
		return "", fmt.Errorf("the memories of this conversation cannot be found: %w", err)
	case !ok:
		return "", errors.New("the memories of this conversation cannot be found: it is not stored")
	}
	return r.m.memoryTool(r.m.memories(rec.Address.Platform, rec.Owner)).Run(ctx, c)
}

func (m *promptInputs) memoryTool(s *memory.Store) tool.Tool {
	return memorytool.New(s, m.memoryTargets(), func(t memory.Target, r memory.Result) {
		m.log.Warn("memory entry refused", zap.String("path", s.Path(t)), zap.String("err", r.Error))
	})
}

// toolDenied returns an error if a principal may not use a tool in a session.
func (m *promptInputs) toolDenied(r session.Record, by access.Principal, name string) error {
	if ours, err := m.providerToolDenied(externalmemory.TurnOf(r, by), name); ours {
		return err
	}
	if name == memorytool.Name && !m.mayUseMemories(r) {
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

// addFiles adds the content of the files in the home directory and in the project to
// in, except skills, and returns notes about them for the user. Files get their share of
// the context window.
func (m *promptInputs) addFiles(in *prompt.Inputs, r session.Record, window int) (notes []string) {
	note := func(ns []contextfile.Note) {
		for _, n := range ns {
			m.log.Warn(n.Text)
			if n.Level == contextfile.Chat {
				notes = append(notes, m.printer.LocalizeError(i18n.Errorf(n.Format, n.Args...)))
			}
		}
	}
	soul, project := m.sources(r)
	if soul {
		text, ns := m.files.Soul(m.home, window)
		in.Soul = text
		note(ns)
	}
	if project != "" {
		p := m.files.Project(project, window)
		in.ContextFiles = p.Text
		note(p.Notes)
	}
	if r.Address.Platform == chat.Cron {
		if _, note := m.workFolder(schedule.JobID(r.Address.Chat)); note != "" {
			in.Guidance = append(in.Guidance, note)
		}
	}
	if m.mayUseMemories(r) {
		m.addMemories(in, m.memories(r.Address.Platform, r.Owner))
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if text, honcho := m.external.Static(ctx, m.ownTurn(r)); honcho {
		in.Honcho = text
	} else {
		in.ExternalMemory = text
	}
	return notes
}

// skillIndex returns the index of the skills for a session with tools, with its share of
// the context window.
func (m *promptInputs) skillIndex(tools []llm.Tool, window int) string {
	catalog := m.library.Catalog()
	m.logSkillProblems(catalog.Problems())
	f := m.skillFilter(tools)
	f.MaxIndex = contextfile.Share(skills.MaxIndex, window)
	text := catalog.Index(f)
	if f.MaxIndex == skills.MaxIndex {
		return text // names are never left out
	}
	return contextfile.Truncate("the index of skills", text, f.MaxIndex, "skills_list lists all.")
}

// sources reports whether the prompt of a session contains SOUL.md, and returns the
// folder of its context files. The folder is "" if there is none, as for a scheduled
// prompt that names no folder.
func (m *promptInputs) sources(r session.Record) (soul bool, project string) {
	job, dir := r.Address.Platform == chat.Cron, m.workspace
	if job {
		dir = m.projectFolder(schedule.JobID(r.Address.Chat))
	}
	soul, files := prompt.Sources(m.c.Agent.SkipContextFiles || dir == "", job && m.c.Agent.LoadSoul)
	if !files {
		return soul, ""
	}
	return soul, dir
}

// projectFolder returns the folder that a scheduled prompt names, or "".
func (m *promptInputs) projectFolder(id schedule.JobID) string {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	j, _, err := m.store.Job(ctx, id)
	if err != nil {
		m.log.Warn("context files of a scheduled prompt are excluded", zap.String("job", string(id)), zap.Error(err))
		return ""
	}
	return j.Workdir
}

// logSkillProblems logs problems of skills. A problem that persists is logged once.
func (m *promptInputs) logSkillProblems(ps []skills.Problem) {
	m.mu.Lock()
	var news []skills.Problem
	for _, p := range ps {
		if !slices.Contains(m.loggedProblems, p) {
			news = append(news, p)
		}
	}
	m.loggedProblems = ps
	m.mu.Unlock()
	for _, p := range news {
		m.log.Warn("problem with a skill", zap.String("path", p.Path), zap.String("err", p.Text))
	}
}

// storeTimeout limits one read of the store while a prompt is built.
const storeTimeout = 5 * time.Second

func (m *promptInputs) skillFilter(tools []llm.Tool) skills.Filter {
	f := skills.Filter{Disabled: m.c.Skills.Disabled, Tools: []string{}, Toolsets: tool.ToolsetsOf(tools)}
	for _, t := range tools {
		f.Tools = append(f.Tools, t.Name)
	}
	return f
}

// memoryGuidance returns what a session with tools is told if it may keep notes in one of
// the two stores only.
func (m *promptInputs) memoryGuidance(tools []llm.Tool) []string {
	targets := m.memoryTargets()
	if len(targets) != 1 || !slices.ContainsFunc(tools, func(t llm.Tool) bool { return t.Name == memorytool.Name }) {
		return nil
	}
	return []string{fmt.Sprintf("Of the stores of the memory tool only %s is on here: give target %[1]s for each note, whatever it is about.", targets[0])}
}

// addMemories adds the snapshots of s to in.
func (m *promptInputs) addMemories(in *prompt.Inputs, s *memory.Store) {
	for _, t := range m.memoryTargets() {
		text, blocked, err := s.Snapshot(t)
		if err != nil {
			m.log.Error("cannot read memories for the prompt", zap.String("file", t.File()), zap.Error(err))
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

// refreshMemories replaces the memories in a prefix by the current ones. It is
// called when the prefix breaks anyway.
func (m *promptInputs) refreshMemories(r session.Record, p prompt.Prefix) prompt.Prefix {
	if !m.mayUseMemories(r) {
		return p
	}
	var in prompt.Inputs
	m.addMemories(&in, m.memories(r.Address.Platform, r.Owner))
	return p.With(prompt.LayerMemory, in.Memory).With(prompt.LayerUserProfile, in.UserProfile)
}

// memoryNudge returns the reminder to store memories that every
// memory.nudge_interval turns is added for the model, otherwise "".
func (m *promptInputs) memoryNudge(r session.Record) string {
	every := m.c.Memory.NudgeInterval
	if every <= 0 || r.Turns == 0 || r.Turns%every != 0 || !m.mayUseMemories(r) || len(m.memoryTargets()) == 0 || m.c.Memory.WriteApproval {
		return ""
	}
	return fmt.Sprintf("Turns of this conversation so far: %d. If something in it will still matter in another one and is not kept yet, keep it with the memory tool; if not, do nothing.", r.Turns)
}

// expandSkill returns the text for the model of "/name args" in a session, and
// whether such a skill exists.
func (m *promptInputs) expandSkill(id session.ID, name, args string) (string, bool) {
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
		m.log.Warn("cannot use skill", zap.String("name", s.Name), zap.String("err", why))
		return fmt.Sprintf("[The user asks for the skill %s, which cannot be used: %s. Say so, and help without it.]\n%s", s.Name, why, args), true
	}
	return v.Expanded(string(id)).Invocation(args), true
}

// A discovery logs the notes of a contextfile.Discovery.
type discovery struct {
	*contextfile.Discovery
	log *zap.Logger
}

// After implements conversation.Discovery.
func (d discovery) After(input json.RawMessage) string {
	text, notes := d.Discovery.AfterTool(input)
	for _, n := range notes {
		d.log.Warn(n.Text)
	}
	return text
}

// newDiscovery returns what finds the context files of folders that a session enters
// later.
func (m *promptInputs) newDiscovery(window int) conversation.Discovery {
	if m.c.Agent.SkipContextFiles {
		return conversation.NoDiscovery{}
	}
	return discovery{contextfile.NewDiscovery(m.workspace, window), m.log}
}

// personalities returns the built-in personalities and those of the configuration,
// keyed by lower-case name.
func personalities(c *config.Config) map[string]string {
	all := prompt.Personalities()
	for name, text := range c.Agent.Personalities {
		all[strings.ToLower(name)] = text
	}
	return all
}
