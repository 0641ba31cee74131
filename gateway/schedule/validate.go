package schedule

import (
	"errors"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// A Validator validates jobs. All its fields are set; NewValidator sets them.
type Validator struct {
	// Zone is the zone of schedules without one; "" is UTC.
	Zone string
	// Profiles are those of the platforms that can be targets.
	Profiles chat.Profiles
	// Scan describes what in a prompt looks like prompt injection; "": nothing. skills
	// reports whether the job loads skills.
	Scan func(prompt string, skills bool) string
	// Target checks a well-formed target: nil if answers can be delivered to it, else
	// an error for the user.
	Target func(target string) error
	// Level returns the current level of the creator of a job.
	Level func(Job) access.Level
	// Skill reports whether a skill exists.
	Skill func(name string) bool
}

// NewValidator returns a Validator that checks the form of jobs: it knows no skills and no
// chats, scans nothing, and takes the level that the creator had when the job was made.
func NewValidator(zone string, profiles chat.Profiles) Validator {
	return Validator{
		Zone: zone, Profiles: profiles,
		Scan:   func(string, bool) string { return "" },
		Target: func(string) error { return nil },
		Level:  func(j Job) access.Level { return j.Creator.Level },
		Skill:  func(string) bool { return true },
	}
}

// Limits of the fields of a job.
const (
	maxName        = 80
	maxPrompt      = 16_000 // characters
	maxList        = 20     // skills, targets, jobs
	maxWord        = 200    // characters of any other text
	maxRepeat      = 1_000_000
	maxDefaultName = 50 // characters of a name derived from the prompt
)

// ErrInvalid is wrapped by every error about an invalid job or request. The error
// text says what the user has to change.
var ErrInvalid = errors.New("schedule: invalid job")

// An invalidError is an ErrInvalid with the text of the wrapped error.
type invalidError struct{ error }

func (w *invalidError) Is(target error) bool { return target == ErrInvalid }
func (w *invalidError) Unwrap() error        { return w.error }

// invalid is i18n.Errorf with an error that is ErrInvalid.
func invalid(english string, args ...any) error { return &invalidError{i18n.Errorf(english, args...)} }

// Validate checks j, which is to be stored at now. The error is ErrInvalid and joins
// all problems. Creator and Origin are not checked, only whether the creator may have
// what j asks for, and State only together with the schedule.
func (r Validator) Validate(j Job, now time.Time) error {
	var problems []error
	add := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	add(checkID(j.ID))
	add(checkLine("name", j.Name, maxName, true))
	add(checkLine("model", j.Model, maxWord, false))
	add(checkLine("provider", j.Provider, maxWord, false))
	add(r.checkPrompt(j))
	add(checkSchedule(j, now))
	add(checkScript(j))
	add(CheckRights(j, r.Level(j)))
	add(r.checkLists(j))
	if j.Workdir != "" && !filepath.IsAbs(j.Workdir) {
		add(invalid("the workdir %q is not a whole path; begin it with /", j.Workdir))
	}
	if j.Repeat < 0 || j.Repeat > maxRepeat {
		add(invalid("repeat is %d; it must be from 1 to %d, or 0 for no end", j.Repeat, maxRepeat))
	}
	return errors.Join(problems...)
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkID(id JobID) error {
	if !idForm.MatchString(string(id)) {
		return invalid("the id %q is not valid; an id has letters, digits, - and _", id)
	}
	return nil
}

// checkLine checks a text of one line with at most limit characters.
func checkLine(what, s string, limit int, required bool) error {
	switch {
	case s == "" && required:
		return invalid("the %s is missing", what)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return invalid("the %s must be one line of text", what)
	case utf8.RuneCountInString(s) > limit:
		return invalid("the %s is longer than %d characters", what, limit)
	}
	return nil
}

func (r Validator) checkPrompt(j Job) error {
	switch {
	case !utf8.ValidString(j.Prompt) || strings.ContainsRune(j.Prompt, 0):
		return invalid("the prompt is not text")
	case utf8.RuneCountInString(j.Prompt) > maxPrompt:
		return invalid("the prompt is longer than %d characters; put the long part into a skill or a file", maxPrompt)
	case strings.TrimSpace(j.Prompt) == "" && len(j.Skills) == 0 && j.Script == "":
		return invalid("there is nothing to do: a job needs a prompt, a skill or a script")
	}
	if found := r.Scan(j.Prompt, len(j.Skills) > 0); found != "" {
		return invalid("the prompt looks like an attack (%s); say it in other words", found)
	}
	return nil
}

func checkSchedule(j Job, now time.Time) error {
	p, err := j.Schedule.Plan()
	if err != nil {
		return &invalidError{err}
	}
	after := j.State.RecordedUntil
	if after.IsZero() {
		after = j.Schedule.Before(now)
	}
	if _, ok := p.Next(after); !ok && !j.State.Done {
		return invalid("the schedule %q never comes", j.Schedule.Text)
	}
	return nil
}

func checkScript(j Job) error {
	switch clean := path.Clean(strings.ReplaceAll(j.Script, `\`, "/")); {
	case j.Script == "" && j.ScriptOnly:
		return invalid("no_agent needs a script")
	case j.Script == "":
		return nil
	case checkLine("script", j.Script, maxWord, false) != nil:
		return checkLine("script", j.Script, maxWord, false)
	case path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(clean, ':') || !filepath.IsLocal(filepath.FromSlash(clean)):
		return invalid("the script %q must be a file inside the folder scripts of the home, named relative to it", j.Script)
	}
	return nil
}

func (r Validator) checkLists(j Job) error {
	var problems []error
	if len(j.Skills) > maxList || len(j.Deliver) > maxList || len(j.Context) > maxList {
		return invalid("a job has at most %d skills, targets and jobs that it follows", maxList)
	}
	for _, s := range j.Skills {
		if err := checkLine("name of a skill", s, maxWord, true); err != nil {
			problems = append(problems, err)
		} else if !r.Skill(s) {
			problems = append(problems, invalid("there is no skill %q", s))
		}
	}
	if len(j.Deliver) == 0 {
		problems = append(problems, invalid(`there is no target; "local" delivers nowhere and only keeps the output`))
	}
	for _, t := range j.Deliver {
		if err := r.checkTarget(t, j.Origin); err != nil {
			problems = append(problems, err)
		}
	}
	for _, c := range j.Context {
		if err := checkID(c); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// checkTarget checks one delivery target.
func (r Validator) checkTarget(t string, origin chat.Address) error {
	platform, rest, more := strings.Cut(t, ":")
	switch {
	case t == "local":
		return nil
	case t == "origin" && origin == (chat.Address{}):
		return invalid(`the target "origin" is where a job is made in a chat, and this one is not; name a platform or a chat, or "local"`)
	case t == "origin":
		return nil
	case checkLine("target", t, maxWord, true) != nil:
		return checkLine("target", t, maxWord, true)
	case !r.Profiles.Of(chat.Platform(platform)).Unasked || more && strings.Trim(rest, ":") == "":
		var names []string
		for _, p := range r.Profiles.Which(func(p chat.Profile) bool { return p.Unasked }) {
			names = append(names, string(p))
		}
		return invalid(`there is no target %q; targets are "origin", "local", a platform (%s), "<platform>:<chat>" and "<platform>:<chat>:<thread>"`, t, strings.Join(names, ", "))
	}
	if err := r.Target(t); err != nil {
		return invalid("nothing can be delivered to %q: %v", t, err)
	}
	return nil
}

// nameFor returns a name for a job without one: the beginning of its prompt, or its
// first skill or script.
func nameFor(j Job) string {
	text := j.Prompt
	if strings.TrimSpace(text) == "" && len(j.Skills) > 0 {
		text = j.Skills[0]
	}
	if strings.TrimSpace(text) == "" {
		text = j.Script
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError
	}), " ")
	if r := []rune(text); len(r) > maxDefaultName {
		text = strings.TrimSpace(string(r[:maxDefaultName-1])) + "…"
	}
	return text
}
