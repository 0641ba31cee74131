package openviking

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/secret"
)

// settings are upstream's settings of this provider.
type settings struct {
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
func load(s provider.Source) (settings, []string, error) {
	profile, warnings, err := loadProfile(s)
	if err != nil {
		return settings{}, nil, err
	}
	env := func(names ...string) string {
		for _, name := range names {
			if v := strings.TrimSpace(s.Getenv(name)); v != "" {
				return v
			}
		}
		return ""
	}
	c := settings{
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

// otherKeys are keys of the linked file that only OpenViking's command line program uses.
const otherKeys = "agent_id timeout output echo_command upload profile extra_headers"

// loadProfile returns the texts of the linked file; none if no file is linked.
func loadProfile(s provider.Source) (texts map[string]string, warnings []string, err error) {
	var section struct {
		Use  bool   `json:"use_ovcli_config"`
		Path string `json:"ovcli_config_path"`
	}
	var keys map[string]json.RawMessage
	if len(s.Section) > 0 {
		if err := errors.Join(json.Unmarshal(s.Section, &section), json.Unmarshal(s.Section, &keys)); err != nil {
			return nil, nil, fmt.Errorf("memory.openviking: use_ovcli_config is true or false, and ovcli_config_path a path: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if key != "use_ovcli_config" && key != "ovcli_config_path" {
			warnings = append(warnings, "memory.openviking."+key+": this setting is not known")
		}
	}
	if !section.Use {
		return nil, warnings, nil
	}
	home := cmp.Or(s.Getenv("HOME"), s.Getenv("USERPROFILE"))
	path := cmp.Or(section.Path, s.Getenv("OPENVIKING_CLI_CONFIG_FILE"), "~/.openviking/ovcli.conf")
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(home, rest)
	}
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("memory.openviking: %s is missing: write it with OpenViking's own setup, correct ovcli_config_path, or set use_ovcli_config to false", path)
	case err != nil:
		return nil, nil, fmt.Errorf("memory.openviking: %w", err)
	}
	var values map[string]any
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, nil, fmt.Errorf("memory.openviking: %s is not a JSON object: %w", path, err)
	}
	texts = make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch {
		case slices.Contains([]string{"url", "api_key", "root_api_key", "account", "user", "actor_peer_id"}, key):
			if text, ok := values[key].(string); ok {
				texts[key] = strings.TrimSpace(text)
			} else if values[key] != nil {
				warnings = append(warnings, path+": "+key+" is not a text")
			}
		case !slices.Contains(strings.Fields(otherKeys), key):
			warnings = append(warnings, path+": "+key+" is not known")
		}
	}
	return texts, warnings, nil
}
