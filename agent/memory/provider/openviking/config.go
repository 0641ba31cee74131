package openviking

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
	"hermesd/internal/secret"
)

// options are upstream's settings of this provider.
type options struct {
	url                  string
	key                  secret.Value
	account, user, peer  string
	limit                int           // items of a recall
	threshold            float64       // least score of an item
	chars                int           // of all items of a recall
	whole, each          time.Duration // time limits: of a recall, of one of its calls
	fullReads            int           // files of a recall that are read whole
	abstracts, resources bool          // recall only abstracts; recall resources too
}

// load reads the settings: the environment, then the linked file of OpenViking's command
// line program, then the defaults.
func load(s provider.Source) (options, []string, error) {
	profile, warnings, err := loadProfile(s)
	if err != nil {
		return options{}, nil, err
	}
	env := func(names ...string) string {
		for _, name := range names {
			if v := strings.TrimSpace(s.Getenv(name)); v != "" {
				return v
			}
		}
		return ""
	}
	c := options{
		url:     cmp.Or(env("OPENVIKING_URL", "OPENVIKING_ENDPOINT"), profile["url"], "http://127.0.0.1:1933"),
		key:     secret.Value(cmp.Or(env("OPENVIKING_API_KEY"), profile["api_key"], profile["root_api_key"])),
		account: cmp.Or(env("OPENVIKING_ACCOUNT"), profile["account"], "default"),
		user:    cmp.Or(env("OPENVIKING_USER"), profile["user"], "default"),
		peer:    cmp.Or(env("OPENVIKING_ACTOR_PEER_ID", "OPENVIKING_AGENT"), profile["actor_peer_id"], "hermes"),
	}
	number := func(name string, def, least, most float64) float64 {
		name = "OPENVIKING_RECALL_" + name
		text := env(name)
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case text == "":
			return def
		case err != nil || !(v >= least && v <= most): // NaN too
			warnings = append(warnings, fmt.Sprintf("%s: %q is not a number from %v to %v; %v is used", name, text, least, most, def))
			return def
		}
		return v
	}
	flag := func(name string) bool {
		return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(env("OPENVIKING_RECALL_"+name)))
	}
	c.limit = int(number("LIMIT", 6, 1, 100))
	c.threshold = number("SCORE_THRESHOLD", 0.15, 0, 1)
	c.chars = int(number("MAX_INJECTED_CHARS", 4000, 100, 50000))
	c.whole = time.Duration(number("TIMEOUT_SECONDS", 4, 0.1, 60) * float64(time.Second))
	c.each = time.Duration(number("REQUEST_TIMEOUT_SECONDS", 3, 0.1, 60) * float64(time.Second))
	c.fullReads = int(number("FULL_READ_LIMIT", 2, 0, 100))
	c.abstracts, c.resources = flag("PREFER_ABSTRACT"), flag("RESOURCES")
	return c, warnings, nil
}

// loadProfile returns the texts of the linked file; none if no file is linked.
func loadProfile(s provider.Source) (texts map[string]string, warnings []string, err error) {
	if len(s.Section) == 0 {
		return nil, nil, nil
	}
	section, err := settings.Parse("memory.openviking", s.Section)
	if err != nil {
		return nil, nil, err
	}
	use := section.Bool("use_ovcli_config", false)
	path := cmp.Or(section.Text("ovcli_config_path"), s.Getenv("OPENVIKING_CLI_CONFIG_FILE"), "~/.openviking/ovcli.conf")
	warnings = section.Unknown()
	if !use {
		return nil, warnings, nil
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(cmp.Or(s.Getenv("HOME"), s.Getenv("USERPROFILE")), rest)
	}
	linked, found, err := settings.Read(s.Planned, path)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("memory.openviking: %w", err)
	case !found:
		return nil, nil, fmt.Errorf("memory.openviking: %s is missing: write it with OpenViking's own setup, correct ovcli_config_path, or set use_ovcli_config to false", path)
	}
	texts = make(map[string]string)
	for _, key := range []string{"url", "api_key", "root_api_key", "account", "user", "actor_peer_id"} {
		texts[key] = linked.Text(key)
	}
	// These are only for OpenViking's command line program.
	linked.Skip("agent_id", "timeout", "output", "echo_command", "upload", "profile", "extra_headers")
	return texts, append(warnings, linked.Unknown()...), nil
}
