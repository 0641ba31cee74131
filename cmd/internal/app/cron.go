package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermesd/agent/injection"
	"hermesd/cmd/internal/config"
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/spawn"
)

// CronRules returns what scheduled prompts are judged by, by the daemon and by
// the command line alike.
func CronRules(cfg *config.Config) schedule.Validator {
	r := schedule.Validator{Zone: "Local", Scan: scanPrompt}
	if cfg != nil && cfg.Timezone != "" {
		r.Zone = cfg.Timezone
	}
	return r
}

// scanPrompt returns what in a scheduled prompt looks like an attack. Where skills
// are loaded only wording counts: what they teach looks like more.
func scanPrompt(prompt string, skills bool) string {
	found := injection.ScanMemory(prompt)
	if skills {
		wording := []string{injection.PromptInjection, injection.DeceptionHide, injection.SysPromptOverride, injection.DisregardRules}
		found = slices.DeleteFunc(found, func(f injection.Finding) bool { return !slices.Contains(wording, f.ID) })
	}
	return injection.JoinIDs(found)
}

// cron is how the daemon runs scheduled prompts.
func (a *App) cron() gateway.CronOptions {
	c := a.opts.Config.Cron
	rules := CronRules(a.opts.Config)
	rules.Skill = func(name string) bool { _, ok := a.prompts.library.Catalog().Find(name); return ok }

	out := outputs{dir: filepath.Join(a.opts.Home, "cron", "output"), mask: a.opts.Report.Secrets.Mask}
	return gateway.CronOptions{
		Options: schedule.Options{CatchUp: schedule.CatchUp(c.CatchUp), Parallel: c.MaxParallelJobs},
		Rules:   rules, Attach: c.AttachToSession, Script: a.script, Keep: out.keep, Newest: out.newest,
	}
}

// folder is where the commands of a session run that name no folder: those of a
// scheduled prompt in its folder, as long as that is in the workspace.
func (a *App) folder(id string) string {
	who, ok := a.gateway.Actor(session.ID(id))
	if !ok || who.Address.Platform != chat.Cron {
		return ""
	}
	dir, _ := a.prompts.folder(schedule.JobID(who.Address.Chat))
	return dir
}

// folder returns the folder in the workspace in which the commands of a scheduled
// prompt run, "" for the workspace itself, and what the prompt is told of it.
func (m *promptInputs) folder(id schedule.JobID) (dir, note string) {
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	j, _, err := m.jobs(ctx, id)
	if err != nil || j.Workdir == "" {
		return "", ""
	}
	root, err := filepath.EvalSymlinks(m.workspace)
	dir, wrong := filepath.EvalSymlinks(j.Workdir)
	switch rel, far := filepath.Rel(root, dir); {
	case errors.Join(err, wrong, far) != nil || !filepath.IsLocal(rel):
		return "", fmt.Sprintf("The folder of this job, %s, is not in the workspace: commands and the tools for files do not reach it.", j.Workdir)
	case rel == ".":
		return "", ""
	default:
		return dir, fmt.Sprintf("This job works in the folder %s of the workspace: commands run there unless they name another. Paths of the tools for files count from the workspace.", rel)
	}
}

// The bounds of the script of a scheduled prompt.
const (
	scriptTime = 5 * time.Minute
	scriptKeep = 100_000 // bytes of its output
)

// script runs the script of a job, a file below scripts in the home, and returns
// what it wrote. It is the operator's own and runs outside of the sandbox; of the
// environment it gets what commands get.
func (a *App) script(ctx context.Context, j schedule.Job) (string, error) {
	argv, err := scriptCommand(filepath.Join(a.opts.Home, "scripts"), j.Script)
	if err != nil {
		return "", err
	}
	dir := j.Workdir
	if dir == "" {
		dir = a.prompts.workspace
	}
	r, err := spawn.Run(ctx, spawn.Command{Argv: argv, Dir: dir, PassEnv: a.opts.Config.Terminal.EnvPassthrough, Timeout: scriptTime, MaxKept: scriptKeep, MaxOutput: scriptKeep})
	if err != nil {
		return "", err
	}
	out := a.opts.Report.Secrets.Mask(strings.ToValidUTF8(string(r.Head)+string(r.Tail), string(utf8.RuneError)))
	switch {
	case r.Cause != nil:
		return "", r.Cause
	case r.Code != 0:
		return "", fmt.Errorf("it ended with code %d: %s", r.Code, lastLine(out))
	}
	return out, nil
}

// scriptCommand is how a script is started: by its ending, or as a program. A
// link does not lead out of the folder.
func scriptCommand(folder, name string) ([]string, error) {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, fmt.Errorf("the home has no folder scripts: %w", err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(below) {
		return nil, errors.New("it is not in the folder scripts")
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	}
	switch filepath.Ext(path) {
	case ".sh", ".bash":
		return []string{"bash", path}, nil
	case ".py":
		return []string{"python3", path}, nil
	}
	if info.Mode()&0o111 == 0 {
		return nil, errors.New("it is neither .sh nor .py, and not executable; run chmod +x")
	}
	return []string{path}, nil
}

// lastLine is the last line of a text that says something.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	if s == "" {
		return "it wrote nothing"
	}
	return s
}

// outputs are the answers of scheduled runs as files: dir/JOB/TIME.md.
type outputs struct {
	dir  string
	mask func(string) string
}

// keptOutputs is how many answers of one job are kept.
const keptOutputs = 100

// of is the folder of a job. No id leads out of dir.
func (o outputs) of(job schedule.JobID) string { return filepath.Join(o.dir, personDir(string(job))) }

// keep writes the answer of a run, in one piece or not at all.
func (o outputs) keep(slot schedule.OccurrenceID, answer string) error {
	dir := o.of(slot.Job)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, slot.DueAt.UTC().Format("20060102T150405Z")+".md")
	if err := os.WriteFile(path+".tmp", []byte(o.mask(answer)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	names, err := o.names(slot.Job)
	for _, old := range names[:max(0, len(names)-keptOutputs)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old)))
	}
	return err
}

// names are the files of a job, the oldest first.
func (o outputs) names(job schedule.JobID) ([]string, error) {
	list, err := os.ReadDir(o.of(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".md") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// newest is the newest answer of a job, "" if there is none yet.
func (o outputs) newest(job schedule.JobID) (string, error) {
	names, err := o.names(job)
	if err != nil || len(names) == 0 {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(o.of(job), names[len(names)-1]))
	return string(raw), err
}
