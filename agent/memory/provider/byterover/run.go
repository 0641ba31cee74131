package byterover

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/atomicfile"
	"hermesd/internal/shorten"
	"hermesd/internal/spawn"
)

// maxOutput is the largest output of a command that is read, in bytes.
const maxOutput = 4 << 20

// passed are the variables that brv gets in addition to those of every process.
var passed = []string{
	"HOME", "BRV_DATA_DIR", "BRV_IAM_BASE_URL", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "NODE_EXTRA_CA_CERTS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// binary returns the path of brv; "" if it is not installed.
func (c *client) binary() string {
	home := cmp.Or(c.getenv("HOME"), c.getenv("USERPROFILE"))
	dirs := append(filepath.SplitList(c.getenv("PATH")), filepath.Join(home, ".brv-cli", "bin"), "/usr/local/bin", filepath.Join(home, ".npm-global", "bin"))
	for _, dir := range dirs {
		path := filepath.Join(dir, "brv")
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// project returns the directory of a person and makes it a project of brv. brv searches
// the directories above for a project otherwise, and would find that of somebody else.
func (c *client) project(person string) (string, error) {
	dir := c.dir
	if person != "" {
		if !filepath.IsLocal(person) || strings.ContainsAny(person, `/\.`) {
			return "", errors.New("no name of a person")
		}
		dir = filepath.Join(c.dir+"-people", person)
	}
	c.making.Lock()
	defer c.making.Unlock()
	config := filepath.Join(dir, ".brv", "config.json")
	if _, err := os.Stat(config); err == nil {
		return dir, nil
	}
	if info, err := os.Lstat(filepath.Dir(config)); person == "" && err == nil && info.Mode().IsRegular() {
		return dir, nil // it names the project that the owner uses
	}
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]string{"createdAt": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "cwd": dir, "version": "0.0.1"})
	if err != nil {
		return "", err
	}
	return dir, atomicfile.Replace(config, body, 0o600)
}

// A command is one run of brv.
type command struct {
	person string
	args   []string // its name and flags
	text   string   // its last argument, unless it is ""
	limit  time.Duration
}

// run runs a command and decodes the data of its answer into out.
func (c *client) run(ctx context.Context, do command, out any) error {
	binary := c.binary()
	if binary == "" {
		return &provider.Error{Class: provider.Down, Text: missing}
	}
	dir, err := c.project(do.person)
	if err != nil {
		return &provider.Error{Class: provider.Down, Text: label + ": its directory cannot be made: " + err.Error(), Err: err}
	}
	env := []string{"PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + c.getenv("PATH")}
	for _, name := range passed {
		if v := c.getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	if c.key != "" {
		env = append(env, "BRV_API_KEY="+c.key.Reveal())
	}
	argv := append([]string{binary}, append(slices.Clip(do.args), "--format", "json")...)
	if do.text != "" {
		argv = append(argv, "--", strings.ReplaceAll(do.text, "\x00", ""))
	}
	r, err := spawn.Run(ctx, spawn.Command{
		Argv: argv, Dir: dir, Env: env, Stderr: io.Discard, Timeout: do.limit, Grace: -1, MaxKept: maxOutput, MaxOutput: maxOutput, Untrusted: true,
	})
	if err != nil {
		return &provider.Error{Class: provider.Down, Text: label + ": brv does not start", Err: err}
	}
	switch {
	case errors.Is(r.Cause, spawn.ErrFlood):
		return garbage(r.Cause)
	case r.Cause != nil:
		return &provider.Error{Class: provider.Down, Sent: true, Text: label + " did not answer in time; its background process needs the network to start", Err: r.Cause}
	}
	output := append(r.Head, r.Tail...)
	if len(bytes.TrimSpace(output)) == 0 {
		text := fmt.Sprintf("%s: brv has written nothing, exit code %d", label, r.Code)
		if r.Code == 127 {
			text = label + ": brv does not start; is node in PATH?"
		}
		return &provider.Error{Class: provider.Down, Sent: true, Text: text}
	}
	return c.decode(output, out)
}

func garbage(err error) error {
	return &provider.Error{Class: provider.Garbage, Sent: true, Text: label + " has written something that cannot be read", Err: err}
}

// decode decodes the answer of a command: the last line. Only the field success tells
// whether the command has failed; the exit code does not.
func (c *client) decode(output []byte, out any) error {
	output = bytes.TrimSpace(output)
	var answer struct {
		Success *bool           `json:"success"`
		Data    json.RawMessage `json:"data"`
	}
	last := output[bytes.LastIndexByte(output, '\n')+1:]
	if err := json.Unmarshal(last, &answer); err != nil {
		return garbage(err)
	}
	if answer.Success == nil {
		return garbage(errors.New("success is missing"))
	}
	if !*answer.Success {
		return c.failure(answer.Data)
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return garbage(err)
	}
	return nil
}

// failure returns the error of a command that has failed.
func (c *client) failure(data json.RawMessage) error {
	var d struct {
		Error, Message, Event string
		Errors                []json.RawMessage // of newer versions
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return garbage(err)
	}
	if len(d.Errors) > 0 {
		return &provider.Error{Class: provider.Auth, Text: callersModel}
	}
	text := cmp.Or(d.Error, d.Message, "no reason given")
	e := &provider.Error{Class: provider.Down, Sent: d.Event != ""}
	if d.Error == "" && d.Event == "" && d.Message != "" {
		e.Class = provider.Refused // of the arguments
	}
	lower := strings.ToLower(text)
	for _, words := range []string{"no provider connected", "providers connect", "api key", "credits", "not logged in", "unauthorized"} {
		if strings.Contains(lower, words) {
			e.Class = provider.Auth // a person must do something about it
		}
	}
	if k := c.key.Reveal(); k != "" {
		text = strings.ReplaceAll(text, k, "***")
	}
	e.Text = label + " has failed: " + shorten.Line(text, 200)
	return e
}
