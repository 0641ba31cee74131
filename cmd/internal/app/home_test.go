package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"hermesd/agent/prompt"
	"hermesd/cmd/internal/app"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/session"
	"hermesd/internal/sim/llm"
)

var updateHome = flag.Bool("update-home", false, "write testdata/home.prompt.golden")

// A keptFile file is one that a run must not change.
type keptFile struct {
	Text string
	Mode fs.FileMode
	Time time.Time
}

// filesOf returns every file below dir, by its path.
func filesOf(t *testing.T, dir string) map[string]keptFile {
	t.Helper()
	all := map[string]keptFile{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = keptFile{string(raw), info.Mode(), info.ModTime()}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// copyExistingHome copies testdata/home, a home directory of upstream Hermes.
func copyExistingHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "home"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(home, "env"), filepath.Join(home, ".env")); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name := range filesOf(t, home) {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

// TestExistingHomeDirectoryWorks starts a daemon in a home directory of upstream
// Hermes and sends messages: the prompt contains the files of that directory byte
// for byte, and the daemon changes none of them.
func TestExistingHomeDirectoryWorks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	home := copyExistingHome(t)
	before := filesOf(t, home)
	model, err := llm.Start(llm.Options{Reply: llm.Echo})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	env := func(name string) (string, bool) { return model.URL, name == "MODEL_URL" }
	c, report, err := config.Load(config.Options{Home: home, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	for section, key := range map[string]string{"": "_config_version", "browser": "", "checkpoints": "", "memory": "flush_min_turns", "platforms.telegram": "reactions"} {
		if !slices.ContainsFunc(report.Warnings, func(p config.Problem) bool { return p.Key == section && strings.Contains(p.Text, key) }) {
			t.Errorf("nothing is said of %s in %s, which has no effect: %v", key, section, report.Warnings)
		}
	}
	w := &harness{T: t, ctx: ctx, home: home, log: newLogRecorder(), model: model}
	a, err := app.New(ctx, app.Options{Config: c, Report: report, Home: home, ConsoleOnly: true, Version: "test", Log: zap.New(w.log.core(report.Secrets)), Say: w.log.say})
	if err != nil {
		t.Fatal(err)
	}
	w.app = a
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(run) }() // waited for below
	<-a.Ready()
	w.echoConsole("hello")
	rec, p := onlySession(ctx, t, a)
	if !slices.ContainsFunc(w.log.lines(), func(l logLine) bool { return strings.Contains(l.text, "jobs.json has scheduled prompts") }) {
		t.Error("nothing is said of scheduled prompts that do not run")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	goldenHome(t, promptPage(p, rec, c.Location()))
	sent := model.Requests()
	if len(sent) != 1 || sent[0].System != p.System() {
		t.Errorf("the model was sent %d requests, of which the first has the prompt\n%q\nand not\n%q", len(sent), sent[0].System, p.System())
	}
	after := filesOf(t, home)
	for name, was := range before {
		if diff := cmp.Diff(was, after[name]); diff != "" {
			t.Errorf("%s was changed:\n%s", name, diff)
		}
	}
	for name := range after {
		_, had := before[name]
		if top, _, _ := strings.Cut(name, "/"); !had && !strings.HasPrefix(top, "hermesd.") && top != "cache" && top != "search.db" {
			t.Errorf("%s is new in a home that is not ours alone", name)
		}
	}
}

// onlySession returns the only session and its prompt.
func onlySession(ctx context.Context, t *testing.T, a *app.App) (session.Record, prompt.Prefix) {
	t.Helper()
	recs, err := a.Store().Sessions(ctx, session.Query{Max: 2})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d sessions, %v", len(recs), err)
	}
	raw, err := a.Store().Prompt(ctx, recs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var p prompt.Prefix
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return recs[0], p
}

// promptPage formats a prompt with the names of its layers and tools. Values that
// differ between runs are replaced by their names.
func promptPage(p prompt.Prefix, r session.Record, zone *time.Location) []byte {
	var b bytes.Buffer
	b.WriteString("layers:")
	for _, l := range p.Layers() {
		b.WriteString(" [" + l.Name + "]")
	}
	b.WriteString("\ntools:")
	for _, t := range p.Tools() {
		b.WriteString(" " + t.Name)
	}
	text := strings.ReplaceAll(p.System(), string(r.ID), "{SESSION}")
	text = strings.ReplaceAll(text, r.Created.In(zone).Format("Monday, January 2, 2006"), "{DATE}")
	b.WriteString("\n\n" + text + "\n")
	return b.Bytes()
}

func goldenHome(t *testing.T, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "home.prompt.golden")
	if *updateHome {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the prompt is not %s (go test ./cmd/internal/app -run ExistingHome -update-home):\n%s", path, diff)
	}
}
