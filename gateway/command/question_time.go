package command

import (
	"strconv"
	"time"
)

// confirmTimeout is how long a confirmation question is valid. Older buttons do
// nothing, so that a press on an old message has no unintended effect.
const confirmTimeout = 5 * time.Minute

// QuestionTime returns the current time in the form that the button of a confirmation
// question carries: base 36 Unix seconds.
func QuestionTime() string { return strconv.FormatInt(time.Now().Unix(), 36) }

// IsQuestionValid reports whether a question of that QuestionTime is still valid.
func IsQuestionValid(asked string) bool {
	at, err := strconv.ParseInt(asked, 36, 64)
	return err == nil && time.Since(time.Unix(at, 0)).Abs() < confirmTimeout
}
