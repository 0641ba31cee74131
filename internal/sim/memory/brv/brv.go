// Package brv implements a stand-in for brv, the command line program of ByteRover, for
// tests: search, query, curate, status and providers with JSON output. It exits with 0 even if a
// command fails, as the program does, and finds its project as the program does.
//
// The test's own binary is the program: TestMain calls Main if Called says so.
package brv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hermesd/internal/sim/memory"
)

// A Behaviour says how the program fails.
type Behaviour struct {
	Hang       bool          // its background process cannot be reached: it waits and writes nothing
	Delay      time.Duration // before it works
	NoProvider bool          // no model is set up: query and curate fail, search does not
	Newer      bool          // curate has its caller run the model, as versions after 3.16 do
	Fail       string        // tasks fail with this message
	Output     string        // it writes only this
	Flood      bool          // it writes without end
	Review     int           // changes of a curate that wait for a person
}

// A Call is one run of the program.
type Call struct {
	Args  []string
	Dir   string // working directory
	Env   []string
	Stdin bool // its input is not at its end
}

// Called reports whether this process was started as brv.
func Called() bool { return filepath.Base(os.Args[0]) == "brv" }

// Main runs the program and exits.
func Main() {
	data := os.Getenv("BRV_DATA_DIR")
	if data == "" {
		data = filepath.Join(os.Getenv("HOME"), ".local", "share", "brv")
	}
	if err := run(data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(2)
	}
	syscall.Exit(0) // os.Exit waits for a second under the race detector
}

func run(data string) error {
	var b Behaviour
	if raw, err := os.ReadFile(filepath.Join(data, "behaviour.json")); err == nil {
		if err := json.Unmarshal(raw, &b); err != nil {
			return err
		}
	}
	if err := record(data); err != nil {
		return err
	}
	time.Sleep(b.Delay)
	switch {
	case b.Hang:
		time.Sleep(time.Hour)
		return nil
	case b.Flood:
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return err
			}
		}
	case b.Output != "":
		_, err := os.Stdout.WriteString(b.Output)
		return err
	}
	c, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	c.b = b
	return c.run()
}

func record(data string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	_, readErr := os.Stdin.Read(make([]byte, 1))
	line, err := json.Marshal(Call{Args: os.Args[1:], Dir: dir, Env: os.Environ(), Stdin: !errors.Is(readErr, io.EOF)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(data, "calls.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

type command struct {
	name, text string
	flags      map[string]string
	b          Behaviour
	project    string // "": none
}

// parse parses the arguments: a command, its flags and, after --, its text.
func parse(args []string) (*command, error) {
	known := map[string]string{"search": "limit scope format", "query": "format timeout", "curate": "format timeout", "status": "format", "providers": "format"}
	if len(args) == 0 || known[args[0]] == "" {
		return nil, errors.New("command not found")
	}
	c := &command{name: args[0], flags: make(map[string]string)}
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if args[0] == "--" {
			if len(args) != 2 {
				return nil, errors.New("unexpected argument")
			}
			c.text = args[1]
			break
		}
		name := strings.TrimPrefix(args[0], "--")
		if len(args) < 2 || !strings.Contains(" "+known[c.name]+" ", " "+name+" ") {
			return nil, errors.New("nonexistent flag: " + args[0])
		}
		c.flags[name] = args[1]
	}
	for flag, limits := range map[string][2]int{"limit": {1, 50}, "timeout": {10, 3600}} {
		if n, err := strconv.Atoi(c.flags[flag]); c.flags[flag] != "" && (err != nil || n < limits[0] || n > limits[1]) {
			return nil, errors.New("parsing --" + flag)
		}
	}
	return c, nil
}

// write writes one line of JSON, or text in the format text.
func (c *command) write(success bool, data any) error {
	if c.flags["format"] != "json" {
		_, err := fmt.Printf("%v\n", data)
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"command": c.name, "success": success, "data": data, "timestamp": time.Now().UTC()})
}

func (c *command) fail(message string) error {
	return c.write(false, map[string]string{"error": message, "status": "error"})
}

func (c *command) run() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, ".brv", "config.json")
	if _, err := os.Stat(config); errors.Is(err, fs.ErrNotExist) && (c.name == "query" || c.name == "curate") {
		if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(config, []byte(`{"createdAt":"2026-11-28T00:00:00.000Z","version":"0.0.1"}`), 0o600); err != nil {
			return err
		}
	}
	c.project = project(dir)
	switch {
	case c.name == "status":
		return c.write(true, map[string]string{"cliVersion": "3.14.0", "projectRoot": c.project, "authStatus": "not_logged_in"})
	case c.name == "providers" && c.b.NoProvider:
		return c.write(true, map[string]string{"providerId": "", "providerName": ""})
	case c.name == "providers":
		return c.write(true, map[string]string{"providerId": "openai", "providerName": "OpenAI", "activeModel": "m"})
	case c.name == "curate" && c.b.Newer:
		return c.handOver()
	case strings.TrimSpace(c.text) == "":
		return c.write(false, map[string]string{"message": "An argument is required.", "status": "error"})
	case c.name != "search" && c.b.NoProvider:
		return c.fail(`No provider connected. Run "brv providers connect byterover" to use the free built-in provider, or connect another provider.`)
	case c.b.Fail != "":
		return c.write(false, map[string]string{"event": "error", "message": c.b.Fail, "status": "error"})
	}
	var valid struct {
		Created *string `json:"createdAt"`
	}
	raw, err := os.ReadFile(filepath.Join(c.project, ".brv", "config.json"))
	if c.project != "" && (err != nil || json.Unmarshal(raw, &valid) != nil || valid.Created == nil) {
		return c.fail("Invalid BrvConfig JSON structure")
	}
	switch c.name {
	case "search":
		return c.search()
	case "query":
		return c.query()
	}
	return c.curate()
}

// handOver is curate of newer versions: the caller is to run the model and come again.
func (c *command) handOver() error {
	if strings.TrimSpace(c.text) == "" {
		return c.write(false, map[string]any{"ok": false, "status": "failed", "errors": []map[string]string{{"kind": "missing-content", "message": "Curate kickoff requires a context argument."}}})
	}
	id := memory.UUID()
	dir := filepath.Join(c.project, ".brv", "sessions", "curate-"+id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(`{"attempts":0,"step":"awaiting-generate"}`), 0o600); err != nil {
		return err
	}
	return c.write(true, map[string]any{"ok": true, "status": "needs-llm-step", "sessionId": id, "step": "generate-html", "prompt": "Generate a <bv-topic> document for: " + c.text})
}

// project returns the nearest directory with a .brv; "" if that is no project.
func project(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".brv")); err == nil {
			if _, err := os.Stat(filepath.Join(dir, ".brv", "config.json")); err != nil {
				return ""
			}
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

func (c *command) tree() string { return filepath.Join(c.project, ".brv", "context-tree") }

// find returns paths and texts of files that fit the text of the command.
func (c *command) find(limit int) (paths, texts []string, hits []memory.Hit, err error) {
	err = filepath.WalkDir(c.tree(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		paths, texts = append(paths, strings.TrimPrefix(path, c.tree()+"/")), append(texts, string(raw))
		return err
	})
	return paths, texts, memory.Search(c.text, texts, limit), err
}

func (c *command) search() error {
	if _, err := os.Stat(c.tree()); c.project == "" || err != nil {
		return c.write(true, map[string]any{"message": "Context tree not initialized. Run curate first.", "results": []any{}, "status": "completed", "totalFound": 0})
	}
	limit, err := strconv.Atoi(c.flags["limit"])
	if err != nil {
		limit = 10
	}
	paths, texts, hits, err := c.find(limit)
	if err != nil {
		return err
	}
	results := []map[string]any{}
	for _, h := range hits {
		results = append(results, map[string]any{"title": "Note", "path": paths[h.Index], "score": h.Score, "excerpt": texts[h.Index], "origin": "local", "symbolKind": "context", "symbolPath": paths[h.Index]})
	}
	return c.write(true, map[string]any{"message": fmt.Sprintf("Found %d", len(results)), "results": results, "status": "completed", "totalFound": len(results)})
}

func (c *command) query() error {
	_, texts, hits, err := c.find(3)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	result := "No knowledge."
	if len(hits) > 0 {
		result = "It is known: " + texts[hits[0].Index]
	}
	id := memory.UUID()
	if err := c.write(true, map[string]any{"content": result, "event": "response", "taskId": id}); err != nil {
		return err
	}
	return c.write(true, map[string]any{"event": "completed", "result": result, "status": "completed", "taskId": id, "durationMs": 5, "tier": 2})
}

func (c *command) curate() error {
	id := memory.UUID()
	if err := os.MkdirAll(filepath.Join(c.tree(), "notes"), 0o700); err != nil {
		return err
	}
	path := filepath.Join(c.tree(), "notes", id+".md")
	if err := os.WriteFile(path, []byte("---\ntitle: Note\ntags: []\n---\n"+c.text+"\n"), 0o600); err != nil {
		return err
	}
	data := map[string]any{"changes": map[string][]string{"created": {path}, "updated": {}}, "event": "completed", "logId": "cur-1", "message": "Context curated successfully", "status": "completed", "taskId": id}
	if c.b.Review > 0 {
		data["pendingReview"] = map[string]any{"count": c.b.Review, "files": []any{}, "taskId": id}
	}
	return c.write(true, data)
}
