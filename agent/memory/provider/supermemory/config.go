package supermemory

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/settings"
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

// load reads the configuration. As upstream does, it takes the default for a value that
// cannot be used.
func load(s provider.Source) (c config, warnings []string, err error) {
	file, _, err := settings.Read(s.Planned, filepath.Join(s.Home, fileName))
	if err != nil {
		return c, nil, fmt.Errorf("supermemory: correct or remove the file: %w", err)
	}
	tag := cmp.Or(strings.TrimSpace(s.Getenv("SUPERMEMORY_CONTAINER_TAG")), file.Text("container_tag"), defaultTag)
	c = config{
		base:         strings.TrimRight(cmp.Or(file.Text("base_url"), strings.TrimSpace(s.Getenv("SUPERMEMORY_BASE_URL")), defaultBase), "/"),
		tag:          cleanTag(strings.ReplaceAll(tag, "{identity}", cmp.Or(s.Profile, "default"))),
		recall:       file.Bool("auto_recall", true),
		capture:      file.Bool("auto_capture", true),
		results:      int(file.Number("max_recall_results", 10, 1, 20)),
		mode:         strings.ToLower(file.Text("search_mode")),
		context:      cmp.Or(file.Text("entity_context"), defaultContext),
		timeout:      time.Duration(file.Number("api_timeout", 5, 0.5, 15) * float64(time.Second)),
		instructions: file.Text("custom_container_instructions"),
	}
	c.context = c.context[:shorten.Offset(c.context, maxContext)]
	if !slices.Contains([]string{"hybrid", "memories", "documents"}, c.mode) {
		c.mode = "hybrid"
	}
	if len(c.tag) > maxTag {
		return c, nil, fmt.Errorf("supermemory: the container tag %q is longer than %d characters: shorten container_tag in %s or SUPERMEMORY_CONTAINER_TAG", c.tag, maxTag, fileName)
	}
	if file.Bool("enable_custom_container_tags", false) {
		c.containers = []string{c.tag}
		for _, name := range file.List("custom_containers") {
			c.containers = append(c.containers, cleanTag(name))
		}
	}
	file.Skip("custom_containers", "profile_frequency", "capture_mode")
	return c, file.Unknown(), nil
}

var (
	noTag       = lazyregexp.New(`[^a-zA-Z0-9]+`) // an underscore too: a run becomes one
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
