package app

import (
	"cmp"
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
	"hermesd/cmd/internal/config/timezone"
	"hermesd/cmd/internal/config/yamlconf"
	"hermesd/cmd/internal/platforms"
	"hermesd/gateway/chat"
	"hermesd/gateway/cron"
	"hermesd/gateway/schedule"
	"hermesd/gateway/session"
	"hermesd/internal/atomicfile"
	"hermesd/internal/spawn"
)

// CronRules returns the validator of scheduled prompts that the daemon and the
// command line share. cfg may be nil; then times are in the time zone of the host.
func CronRules(cfg *config.Config) schedule.Validator {
	r := schedule.NewValidator(timezone.Name(time.Now()), platforms.Profiles())
	r.Scan = scanPrompt
	if cfg != nil && cfg.Timezone != "" {
		r.Zone = cfg.Timezone
	}
	return r
}

// UnimportedJobs describes cron/jobs.json of the home directory, in which upstream keeps
// its scheduled prompts, or returns "" if it has none. It is for homes without jobs: nothing
// else shows that these do not run.
func UnimportedJobs(home string) string {
	path := filepath.Join(home, "cron", "jobs.json")
	raw, err := yamlconf.ReadFile(path, maxJobsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	n := 0
	if err == nil {
		n, err = schedule.CountImportable(raw)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be read: %v. Its scheduled prompts do not run.", path, err)
	case n == 0:
		return ""
	}
	return fmt.Sprintf("%s has scheduled prompts (%d), which do not run. Run \"hermesd cron import\" to take them over, or remove the file.", path, n)
}

// maxJobsFile is the size limit of cron/jobs.json in bytes.
const maxJobsFile = 16 << 20

// scanPrompt returns the findings of the injection scan in a scheduled prompt, or
// "". If the prompt loads skills, only the wording of attacks counts, because
// legitimate instructions of skills match more of the rules.
func scanPrompt(prompt string, skills bool) string {
	found := injection.ScanMemory(prompt)
	if skills {
		wording := []string{injection.PromptInjection, injection.DeceptionHide, injection.SysPromptOverride, injection.DisregardRules}
		found = slices.DeleteFunc(found, func(f injection.Finding) bool { return !slices.Contains(wording, f.ID) })
	}
	return injection.JoinIDs(found)
}

// cronOptions returns how scheduled prompts run.
func (a *App) cronOptions() cron.Options {
	c := a.opts.Config.Cron
	rules, library := CronRules(a.opts.Config), a.prompts.library
	rules.Skill = func(name string) bool { _, ok := library.Catalog().Find(name); return ok }
	return cron.Options{
		CatchUp: schedule.CatchUp(c.CatchUp), Parallel: c.MaxParallelJobs, Rules: rules, Attach: c.AttachToSession,
		Profile: a.profile(), Policy: a.opts.Config.SessionPolicy(),
		Printer: a.printer, Observe: a.telemetry.Observe, Log: a.opts.Log,
	}
}

// folder returns the working directory for commands of a session that name
// none: the folder of a scheduled prompt if it is in the workspace, otherwise "".
func (s commandRules) folder(id string) string {
	actor, ok := s.active.Actor(session.ID(id))
	if !ok || actor.Address.Platform != chat.Cron {
		return ""
	}
	dir, _ := s.prompts.workFolder(schedule.JobID(actor.Address.Chat))
	return dir
}

// workFolder returns the folder in the workspace in which the commands of a
// scheduled prompt run, "" for the workspace itself, and a note about it for the
// prompt.
func (m *promptInputs) workFolder(id schedule.JobID) (dir, note string) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	j, _, err := m.store.Job(ctx, id)
	if err != nil || j.Workdir == "" {
		return "", ""
	}
	dir, rel, ok := JobFolder(m.workspace, j.Workdir)
	switch {
	case !ok:
		return "", fmt.Sprintf("The folder of this job, %s, is not in the workspace: commands and the tools for files do not reach it.", j.Workdir)
	case rel == ".":
		return "", ""
	default:
		return dir, fmt.Sprintf("This job works in the folder %s of the workspace: commands run there unless they name another. Paths of the tools for files count from the workspace.", rel)
	}
}

// JobFolder returns workdir, the folder of a scheduled prompt, without symbolic links and
// relative to workspace; ok reports whether it exists and is in workspace.
func JobFolder(workspace, workdir string) (dir, rel string, ok bool) {
	root, err := filepath.EvalSymlinks(workspace)
	dir, wrong := filepath.EvalSymlinks(workdir)
	rel, far := filepath.Rel(root, dir)
	return dir, rel, errors.Join(err, wrong, far) == nil && filepath.IsLocal(rel)
}

// Limits of the script of a scheduled prompt.
const (
	scriptTimeout   = 5 * time.Minute
	maxScriptOutput = 100_000 // bytes of its output
)

// scripts runs the scripts of scheduled prompts. It implements cron.Scripts.
type scripts struct {
	dir, workspace string
	env            []string // names of variables that are passed on
	mask           func(string) string
}

// Run runs the script of a job, a file below scripts in the home directory,
// and returns its masked output. The script belongs to the operator and runs outside
// of the sandbox, with the environment that commands get.
func (s scripts) Run(ctx context.Context, j schedule.Job) (string, error) {
	argv, err := scriptCommand(s.dir, j.Script)
	if err != nil {
		return "", err
	}
	r, err := spawn.Run(ctx, spawn.Command{Argv: argv, Dir: cmp.Or(j.Workdir, s.workspace), PassEnv: s.env, Timeout: scriptTimeout, MaxKept: maxScriptOutput, MaxOutput: maxScriptOutput})
	if err != nil {
		return "", err
	}
	out := s.mask(strings.ToValidUTF8(string(r.Head)+string(r.Tail), string(utf8.RuneError)))
	switch {
	case r.Cause != nil:
		return "", r.Cause
	case r.Code != 0:
		return "", fmt.Errorf("it ended with code %d: %s", r.Code, lastLine(out))
	}
	return out, nil
}

// scriptCommand returns the command line that starts a script: by its file
// extension, or as an executable. A link must not lead out of the folder.
func scriptCommand(folder, name string) ([]string, error) {
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, fmt.Errorf("find folder scripts in home directory: %w", err)
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

// lastLine returns the last non-empty line of s.
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

// outputs stores the answers of scheduled runs as files dir/JOB/TIME.md. It implements
// cron.Outputs.
type outputs struct {
	dir  string
	mask func(string) string
}

// maxOutputs is the number of answers that are kept per job.
const maxOutputs = 100

// folder returns the folder of a job. No job ID leads out of dir.
func (o outputs) folder(job schedule.JobID) string { return filepath.Join(o.dir, dirName(string(job))) }

// Save stores the answer of a run atomically and deletes the oldest answers beyond
// maxOutputs.
func (o outputs) Save(occurrence schedule.OccurrenceID, answer string) error {
	dir := o.folder(occurrence.Job)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, occurrence.DueAt.UTC().Format("20060102T150405Z")+".md")
	if err := atomicfile.Replace(path, []byte(o.mask(answer)), 0o600); err != nil {
		return err
	}
	names, err := o.names(occurrence.Job)
	for _, old := range names[:max(0, len(names)-maxOutputs)] {
		err = errors.Join(err, os.Remove(filepath.Join(dir, old)))
	}
	return err
}

// names returns the file names of a job, oldest first.
func (o outputs) names(job schedule.JobID) ([]string, error) {
	list, err := os.ReadDir(o.folder(job))
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

// Newest returns the newest answer of a job, or "" if there is none yet.
func (o outputs) Newest(job schedule.JobID) (string, error) {
	names, err := o.names(job)
	if err != nil || len(names) == 0 {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(o.folder(job), names[len(names)-1]))
	return string(raw), err
}
