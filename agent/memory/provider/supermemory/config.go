package supermemory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/internal/lazyregexp"
	"hermesd/internal/shorten"
)

const (
	defaultBase = "https://api.supermemory.ai"
	defaultTag  = "hermes"
	fileName    = "supermemory.json"
	maxContext  = 1500 // characters of entity_context
	maxTag      = 100  // bytes of a container tag
)

// defaultContext tells Supermemory what to extract.
const defaultContext = "A conversation of a person with their assistant. Extract only what will be of use in later conversations: lasting facts about the person, " +
	"preferences, habits, tools, projects, and what they ask to remember. Leave out what holds for one task only, what the assistant did, and intermediate states. If in doubt, extract less."

// A config is what upstream's file and environment say.
type config struct {
	base, tag       string
	recall, capture bool
	results         int // at most, of a recall
	mode            string
	context         string
	timeout         time.Duration
	containers      []string // container tags that tools may name; nil: none
	instructions    string   // about these
}

// keys are the keys of the file.
var keys = strings.Fields("base_url container_tag auto_recall auto_capture max_recall_results profile_frequency capture_mode search_mode " +
	"entity_context api_timeout enable_custom_container_tags custom_containers custom_container_instructions")

// load reads the configuration. As upstream does, it takes the default for a value that
// cannot be used.
func load(s provider.Source) (c config, warnings []string, err error) {
	file := filepath.Join(s.Home, fileName)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = []byte("{}"), nil
	}
	if err != nil {
		return c, nil, fmt.Errorf("Supermemory: %w", err)
	}
	var v map[string]any
	if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), &v); err != nil {
		return c, nil, fmt.Errorf("Supermemory: %s is not a JSON object: correct or remove it: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !slices.Contains(keys, name) {
			warnings = append(warnings, fmt.Sprintf("%s: the key %q is unknown", fileName, name))
		}
	}
	tag := cmp.Or(strings.TrimSpace(s.Getenv("SUPERMEMORY_CONTAINER_TAG")), text(v["container_tag"]), defaultTag)
	c = config{
		base:         strings.TrimRight(cmp.Or(text(v["base_url"]), strings.TrimSpace(s.Getenv("SUPERMEMORY_BASE_URL")), defaultBase), "/"),
		tag:          cleanTag(strings.ReplaceAll(tag, "{identity}", cmp.Or(s.Profile, "default"))),
		recall:       truth(v["auto_recall"], true),
		capture:      truth(v["auto_capture"], true),
		results:      int(number(v["max_recall_results"], 10, 1, 20)),
		mode:         strings.ToLower(text(v["search_mode"])),
		context:      cmp.Or(text(v["entity_context"]), defaultContext),
		timeout:      time.Duration(number(v["api_timeout"], 5, 0.5, 15) * float64(time.Second)),
		instructions: text(v["custom_container_instructions"]),
	}
	c.context = c.context[:shorten.Offset(c.context, maxContext)]
	if !slices.Contains([]string{"hybrid", "memories", "documents"}, c.mode) {
		c.mode = "hybrid"
	}
	if len(c.tag) > maxTag {
		return c, nil, fmt.Errorf("Supermemory: the container tag %q is longer than %d characters: shorten container_tag in %s or SUPERMEMORY_CONTAINER_TAG", c.tag, maxTag, fileName)
	}
	if truth(v["enable_custom_container_tags"], false) {
		c.containers = []string{c.tag}
		list, _ := v["custom_containers"].([]any)
		for _, x := range list {
			if name := text(x); name != "" {
				c.containers = append(c.containers, cleanTag(name))
			}
		}
	}
	return c, warnings, nil
}

var (
	noTag       = lazyregexp.New(`[^a-zA-Z0-9]+`) // an underscore too: a run becomes one
	trueWords   = strings.Fields("true 1 yes y on")
	falseWords  = strings.Fields("false 0 no n off")
	preferences = lazyregexp.New(`(?i)prefer|like|love|hate|want`)
	decisions   = lazyregexp.New(`(?i)decided|will use|going with`)
	facts       = lazyregexp.New(`(?i)\b(is|are|has|have)\b`)
)

// cleanTag returns a container tag of letters, digits and single underscores.
func cleanTag(s string) string {
	return cmp.Or(strings.Trim(noTag().ReplaceAllString(s, "_"), "_"), defaultTag)
}

// category guesses the type of a memory, as upstream does.
func category(text string) string {
	switch {
	case preferences().MatchString(text):
		return "preference"
	case decisions().MatchString(text):
		return "decision"
	case facts().MatchString(text):
		return "fact"
	}
	return "other"
}

func text(v any) string {
	s, _ := v.(string)
	return strings.TrimSpace(s)
}

func truth(v any, def bool) bool {
	if b, ok := v.(bool); ok {
		return b
	}
	word := strings.ToLower(text(v))
	return slices.Contains(trueWords, word) || def && !slices.Contains(falseWords, word)
}

// number returns v, a number or its digits, between low and high; def if it is neither.
func number(v any, def, low, high float64) float64 {
	n, ok := v.(float64)
	if !ok {
		var err error
		if n, err = strconv.ParseFloat(text(v), 64); err != nil || math.IsNaN(n) {
			return def
		}
	}
	return min(max(n, low), high)
}
