package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"hermesd/agent/engine/compressor"
	"hermesd/agent/engine/lcm"
	"hermesd/agent/engine/plugin"
	"hermesd/agent/memory/provider"
	"hermesd/agent/prompt"
	"hermesd/cmd/internal/config"
)

// The configuration keys of files and programs that the start may have to do without.
const (
	engineKey  = "context.engine"
	prefillKey = "agent.prefill_messages_file"
	cwdKey     = "terminal.cwd"
)

// Usable returns c without the files, programs and services that it names and that cannot
// be used, and a warning for each, also for a models.json of the home that is ignored:
// what is wrong, and what the daemon does instead. The start, the command `config check`
// and `doctor` use it, so that they agree. It starts no program and creates nothing. c is
// not changed.
func Usable(c *config.Config, r config.Report, home string) (*config.Config, []config.Problem) {
	u := *c
	var problems []config.Problem
	warn := func(key string, err error, instead string) {
		problems = append(problems, problemAt(r, key, err, instead))
	}
	if err := checkEngine(c.Context.Engine, home); err != nil {
		warn(engineKey, err, "the engine "+compressor.Name+" is used")
		u.Context.Engine = compressor.Name
	}
	if file := c.Agent.PrefillMessagesFile; file != "" {
		if _, _, err := prompt.LoadPrefill(config.InHome(home, file)); err != nil {
			warn(prefillKey, err, "no messages are sent ahead of conversations")
			u.Agent.PrefillMessagesFile = ""
		}
	}
	if _, err := prompt.ParseEnforcement(c.Agent.ToolUseEnforcement...); err != nil {
		warn("agent.tool_use_enforcement", err, "auto is used")
		u.Agent.ToolUseEnforcement = []string{"auto"}
	}
	if err := checkWorkspace(c.Workspace(home)); err != nil && c.Terminal.CWD != "" {
		u.Terminal.CWD = ""
		warn(cwdKey, err, "tools work in "+u.Workspace(home))
	}
	if p, err := unusableMemory(c, r, home); err != nil {
		problems = append(problems, p)
	}
	if err := searchOf(c).Validate(); err != nil {
		warn("web.search", err, "the agent cannot search the web")
		u.Web.Search = config.WebSearch{}
	}
	if _, err := newTranscriber(c.STT); err != nil {
		warn("stt", err, "voice messages are not written down")
		u.STT.Enabled = false
	}
	if _, err := newSpeaker(c.TTS); err != nil {
		warn("tts", err, "there is no /voice")
		u.TTS = config.TTS{}
	}
	if _, err := ModelTable(home); err != nil {
		problems = append(problems, config.Problem{File: filepath.Join(home, modelsFile), Text: err.Error() + ": the file is ignored"})
	}
	return &u, problems
}

// ImpossibleMemory returns those problems of Usable that need another configuration: a
// memory provider in a mode that only upstream's Python program has.
func ImpossibleMemory(c *config.Config, r config.Report, home string) []config.Problem {
	if p, err := unusableMemory(c, r, home); errors.Is(err, provider.ErrImpossible) {
		return []config.Problem{p}
	}
	return nil
}

// unusableMemory returns why the memory provider, or a setting of it, cannot be used; the
// error is nil if it can, or if there is none.
func unusableMemory(c *config.Config, r config.Report, home string) (config.Problem, error) {
	if c.Memory.Provider == "" {
		return config.Problem{}, nil
	}
	p, _, err := OpenMemoryProvider(c.Memory.Provider, c, r, home, nil)
	if err != nil {
		return problemAt(r, memoryKey, err, "the daemon goes on without it"), err
	}
	defer func() { _ = p.Close() }() // it was not used
	if c.Memory.SyncTools && !p.About().ToolUses {
		err := fmt.Errorf("%s has no use for calls of tools", p.About().Label)
		return problemAt(r, "memory.sync_tools", err, "they are not sent"), err
	}
	return config.Problem{}, nil
}

// problemAt returns a problem with a key, at the position where it was set, and what is
// done instead.
func problemAt(r config.Report, key string, err error, instead string) config.Problem {
	p := config.Problem{Key: key, Text: r.Secrets.Mask(err.Error()) + ": " + instead}
	if o := originOf(r, key); o.Line > 0 {
		p.File, p.Line, p.Column = cmp.Or(o.File, o.Name), o.Line, o.Column
	}
	return p
}

// originOf returns where a key or, if it is a section, its first key was set.
func originOf(r config.Report, key string) config.Origin {
	at := r.Origins[key]
	for k, o := range r.Origins {
		if strings.HasPrefix(k, key+".") && o.Line > 0 && (at.Line == 0 || o.Line < at.Line || o.Line == at.Line && o.Column < at.Column) {
			at = o
		}
	}
	return at
}

// engineDir returns the directory of context engines that are programs.
func engineDir(home string) string { return filepath.Join(home, "plugins", "context_engine") }

// checkEngine returns why a context engine cannot be used, nil if it can. The name
// compressor always means the built-in engine; any other name is looked up first among
// the programs in the home directory.
func checkEngine(name, home string) error {
	dir := filepath.Join(engineDir(home), filepath.Base(name))
	if _, err := os.Stat(dir); err == nil && name != compressor.Name {
		m, err := plugin.Load(dir)
		if err != nil {
			return err
		}
		return checkProgram(m.Command[0], dir)
	}
	if name == compressor.Name || name == lcm.Name {
		return nil
	}
	known := []string{compressor.Name, lcm.Name}
	programs, _ := plugin.List(engineDir(home)) // an invalid one is reported when it is selected
	for _, m := range programs {
		known = append(known, m.Name)
	}
	slices.Sort(known)
	return fmt.Errorf("there is no context engine %q; known are %s", name, strings.Join(known, ", "))
}

// checkProgram returns why a program cannot be started in dir, nil if it can.
func checkProgram(name, dir string) error {
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("the context engine cannot run: %w", err)
	}
	return nil
}

// checkWorkspace returns why tools cannot work in a directory, nil if they can, or if it
// can be made.
func checkWorkspace(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue // it is made in the one above
		case err != nil:
			return fmt.Errorf("%s cannot be used: %w", dir, cause(err))
		case !info.IsDir():
			return fmt.Errorf("%s cannot be used: %s is not a directory", dir, at)
		case !mayWrite(at):
			return fmt.Errorf("%s cannot be used: this account may not write to %s", dir, at)
		}
		return nil
	}
}

// cause returns an error of the file system without operation and path.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// findEngine returns the context engine of a name that checkEngine accepts.
func (a *App) findEngine(name string) (engineMaker, error) {
	if m, ok := a.builtinEngines()[name]; ok {
		if _, err := os.Stat(filepath.Join(engineDir(a.opts.Home), name)); err != nil || name == compressor.Name {
			return m, nil
		}
	}
	m, err := plugin.Load(filepath.Join(engineDir(a.opts.Home), filepath.Base(name)))
	if err != nil {
		return nil, keyError(engineKey, err)
	}
	return a.externalEngine(m), nil
}
