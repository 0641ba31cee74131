package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"hermesd/agent/contextfile"
	"hermesd/agent/llm/tokens"
	"hermesd/agent/memory"
	"hermesd/agent/tool"
	"hermesd/cmd/internal/admin"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/internal/spawn"
)

// checkAccess checks that a model and platforms are configured, and that somebody
// may write to the agent.
func (v *checker) checkAccess() {
	c, model := v.o.Config, v.o.Report.Model
	switch {
	case model.Provider == "demo" && (c.Model.Provider == "demo" || strings.EqualFold(c.Model.Default, "demo")):
		v.reportOK("model", "the built-in demo model answers, as the configuration says: it has no intelligence")
	case model.Provider == "demo":
		v.report("model", Warning, "run `hermesd setup`, or set "+config.ServiceVariables()+" in .env", "the built-in demo model answers: it has no intelligence")
	case model.Service().API == config.Ollama:
		v.checkOllama()
	case model.Service().Variable != "":
		if model.APIKey == "" {
			v.report("model", Error, "set its key in .env", "%s needs a key, and there is none", model.Provider)
		} else {
			v.reportOK("model", "there is a key for %s", model.Provider)
		}
	}
	accounts := c.Accounts()
	if len(accounts) == 0 && !c.Platforms.HTTP.Enabled {
		var variables []string
		for _, p := range platforms.All() {
			variables = append(variables, p.Secrets[0].Env)
		}
		v.report("platforms", Warning, "run `hermesd setup`, or set one of "+strings.Join(variables, ", ")+" in .env", "none is configured: only `hermesd chat` reaches the agent")
	}
	policy := c.AccessPolicy()
	for account := range accounts {
		r := policy.Accounts[account]
		own := len(r.Owners) + len(r.AllowFrom) + len(r.AllowedChats) + len(r.Roles)
		if own+len(policy.Owners)+len(policy.Config.AllowFrom) == 0 && !r.AllowAll && !policy.AllowAll && r.UnknownDM != "pair" && policy.UnknownDM != "pair" {
			v.report("platforms", Warning, fmt.Sprintf("put your own id into platforms.%s.allow_admin_from", account.Platform), "nobody may speak on %s", accountName(account))
			continue
		}
		v.reportOK("platforms", "%s has its token", accountName(account))
	}
}

// checkOllama says whose context length counts.
func (v *checker) checkOllama() {
	c, model := v.o.Config, v.o.Report.Model
	const where = "set num_ctx in the model's file or OLLAMA_CONTEXT_LENGTH for the server, not here"
	if n := cmp.Or(c.Model.ContextLength, c.ContextOf(model)); n > 0 {
		v.report("model", Warning, "leave context_length out: the daemon then asks Ollama; for more, "+where,
			"the configuration says that %s has a context of %d tokens, which Ollama does not learn: if it has given the model less, it cuts off the beginning of conversations without an error", model.Model, n)
		return
	}
	v.reportOK("model", "%s has the context that Ollama gives it, which the daemon asks for (for more, %s)", model.Model, where)
}

// compareContextLengths reports a summary model with a smaller context than the main
// model, as far as their context lengths are known without asking the providers.
func (v *checker) compareContextLengths() {
	c, main, summary := v.o.Config, v.o.Report.Model, v.o.Report.Summary
	if summary.Provider == "" {
		return
	}
	table := v.contextTable()
	mainLength, mainSource := table.Resolve(app.ContextQuery(c, main, c.Model.ContextLength), nil)
	summaryLength, summarySource := table.Resolve(app.ContextQuery(c, summary, c.Auxiliary.Compression.ContextLength), nil)
	if isKnown(mainSource) && isKnown(summarySource) && summaryLength < mainLength {
		v.report("model", Warning, "name a model with a larger one in auxiliary.compression, or leave it: the summaries are only less good",
			"%s, which writes summaries, takes %d tokens, %s takes %d: long conversations are summarised in parts", summary.Model, summaryLength, main.Model, mainLength)
	}
}

// checkToolset reports that conversations get the small toolset because the context
// window has no room for all tools: as the running daemon says, else by an estimate.
func (v *checker) checkToolset() {
	const fix = "write toolsets: [small], or the tools that you want, or choose a model with a larger context window"
	main := v.o.Report.Model
	if v.status != nil {
		if t := v.status.Toolset; t.Name != "" {
			v.report("tools", Warning, fix, "%s", t)
		}
		return
	}
	n, from := v.contextTable().Resolve(app.ContextQuery(v.o.Config, main, v.o.Config.Model.ContextLength), nil)
	if isKnown(from) && main.Provider != "demo" && len(v.o.Config.Toolsets) == 0 && app.UsualPrompt*100 > n*app.MaxPromptShare {
		v.report("tools", Warning, fix, "%s", admin.Toolset{Name: tool.Small, Model: main.Model, Window: n, Prompt: app.UsualPrompt})
	}
}

// contextTable returns the context lengths of models with those of the home's own file.
func (v *checker) contextTable() *tokens.Table {
	table, _ := app.ModelTable(v.o.Home) // checkConfig reports an error
	return table
}

// isKnown reports whether a context length of that source needs no question to the service.
func isKnown(s tokens.Source) bool { return s != tokens.FromFallback && s != tokens.FromService }

func accountName(a chat.Account) string {
	if a.Name == "" {
		return string(a.Platform)
	}
	return string(a.Platform) + " (" + a.Name + ")"
}

// checkPersona checks SOUL.md and the context files of the workspace.
func (v *checker) checkPersona() {
	if v.o.Config.Agent.SkipContextFiles {
		return
	}
	text, notes := contextfile.LoadSoul(v.o.Home)
	for _, n := range notes {
		level := Warning
		if n.Level == contextfile.Chat {
			level = Error // the persona is missing
		}
		v.report("persona", level, "correct the file; new conversations take it", "%s", n.Text)
	}
	if len(notes) == 0 && text != "" {
		v.reportOK("persona", "SOUL.md is used")
	}
	work := v.o.Config.Workspace(v.o.Home)
	if _, err := os.Stat(work); errors.Is(err, fs.ErrNotExist) {
		return // the daemon creates it
	}
	for _, n := range contextfile.LoadProject(work).Notes {
		v.report("persona", Warning, "correct the file; new conversations take it", "%s", n.Text)
	}
}

// checkMemories checks that the memory files are readable and within their limits.
func (v *checker) checkMemories() {
	s := app.Memories(v.o.Config, v.o.Home, "", "")
	isOK := true
	for _, t := range []memory.Target{memory.Notes, memory.User} {
		entries, err := s.Entries(t)
		if err != nil {
			isOK = false
			v.report("memory", Error, "make it readable for this user", "%s: %v", s.Path(t), err)
			continue
		}
		n := 0
		for _, e := range entries {
			n += utf8.RuneCountInString(e)
		}
		if n > s.Limit(t) {
			isOK = false
			v.report("memory", Warning, "`hermesd memory remove`, or raise memory.memory_char_limit or user_char_limit: nothing new is kept meanwhile", "%s is full: %s", s.Path(t), s.Usage(t, entries))
		}
		_, blocked, err := s.Snapshot(t)
		if err != nil {
			continue // already reported
		}
		for _, b := range blocked {
			isOK = false
			v.report("memory", Warning, "", "%s", b)
		}
	}
	for _, stray := range s.MisplacedFiles(v.o.Home) {
		v.report("memory", Warning, "", "%s", stray)
	}
	if isOK {
		v.reportOK("memory", "what is kept fits into prompts")
	}
}

func (v *checker) checkSkills() {
	l, err := app.Library(v.o.Config, v.o.Home)
	if err != nil {
		v.report("skills", Error, "correct skills.external_dirs", "%v", err)
		return
	}
	bad := l.Check()
	for _, p := range bad {
		v.report("skills", Warning, "correct the file; `hermesd skills check` looks again", "%s: %s", p.Path, p.Text)
	}
	if len(bad) == 0 {
		v.reportOK("skills", "%d, nothing is wrong with them", len(l.Catalog().Skills()))
	}
}

// checkMachine checks the sandbox and the installed service.
func (v *checker) checkMachine(ctx context.Context) {
	if v.o.Config != nil {
		v.checkSandbox(v.sandbox())
	}
	hint, installed := v.o.Service(ctx)
	switch {
	case hint != "":
		v.report("service", Warning, "", "%s", hint)
	case installed:
		v.reportOK("service", "it is installed and runs")
	}
}

// checkSandbox checks what confines commands here, and in the daemon that runs.
func (v *checker) checkSandbox(s admin.Sandbox) {
	switch {
	case s.Error != "":
		v.report("sandbox", Warning, "`hermesd sandbox` tells more; `terminal.sandbox: off` lets commands do all that this account may do", "%s: %s", s.Text, s.Error)
	case s.Enabled && s.Mechanism == string(spawn.None):
		v.report("sandbox", Warning, "set terminal.sandbox to auto", "%s", s.Text)
	default:
		v.reportOK("sandbox", "%s", s.Text)
	}
	for _, l := range s.Limits {
		v.report("sandbox", Warning, l.Fix, "%s", l.Cause)
	}
	if d := v.status; d != nil && d.Sandbox.Mode != "" && (d.Sandbox.Mechanism != s.Mechanism || d.Sandbox.HasTerminal() != s.HasTerminal()) {
		v.report("sandbox", Warning, "restart the daemon; if it stays so, the service that runs it is confined more than this command", "the daemon that runs found something else at its start: %s", d.Sandbox.Describe())
	}
	if !s.Enabled || s.Mode == string(spawn.Off) {
		return
	}
	for _, path := range v.o.Config.ReadPaths(v.o.Home) {
		if _, err := os.Stat(path); err != nil {
			v.report("sandbox", Warning, "correct terminal.read_paths, and restart the daemon", "commands cannot read %s: %v", path, err)
		}
	}
	work, err := os.Stat(v.o.Config.Workspace(v.o.Home))
	if home, homeErr := os.Stat(v.o.Home); err == nil && homeErr == nil && os.SameFile(work, home) {
		v.report("sandbox", Warning, "set terminal.cwd to another directory, such as workspace", "the workspace is the home of the daemon: what exists there is hidden from commands, but they may make files that the daemon reads")
	}
}
