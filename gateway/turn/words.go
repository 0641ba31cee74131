package turn

import (
	"errors"
	"time"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/gateway/words"
)

// sentence says in one plain sentence what went wrong and what to do next. What
// it does not know it does not describe: the details are in the log. What is kept
// of it (why, outcomes, transcripts) is said by the zero Printer, in English.
func sentence(p words.Printer, err error) string {
	var le *llm.Error
	switch {
	case err == nil:
		return p.T("It is not known why.")
	case errors.Is(err, ErrInactive):
		return p.T("Nothing happened for too long, so I gave up. Send the message again to try once more.")
	case errors.Is(err, agent.ErrEmpty):
		return p.T("The model gave an empty answer three times. Ask again, perhaps in other words.")
	case errors.As(err, &le):
		return modelSentence(p, le)
	}
	var refused *agent.RefusedError
	if errors.As(err, &refused) {
		return p.T("The model declined to answer this. Ask in other words, or start over with `/new`.")
	}
	return p.T("Something went wrong on my side. Send the message again; if it stays, the operator finds the reason in the log.")
}

func modelSentence(p words.Printer, e *llm.Error) string {
	it := e.Provider
	switch e.Class {
	case llm.Auth:
		return p.T("%s refuses the key. The operator must set a valid one (`hermesd config check`).", it)
	case llm.Billing:
		return p.T("%s says that the account's credit or limit is used up. The operator must top it up.", it)
	case llm.RateLimit:
		return p.T("%s takes no more requests for now%s. Send the message again then.", it, in(p, e.After))
	case llm.Overloaded:
		return p.T("%s is overloaded. Send the message again in a few minutes.", it)
	case llm.Server, llm.Timeout, llm.Network, llm.Garbage:
		return p.T("%s does not answer properly (%s). Send the message again in a few minutes.", it, trouble(p, e.Class))
	case llm.Overflow, llm.TooLarge:
		return p.T("This conversation has become too long for the model. `/new` starts a fresh one; the old one is kept.")
	case llm.ImageTooLarge:
		return p.T("The image is too large for the model. Send a smaller one.")
	case llm.NotFound:
		return p.T("%s does not know the configured model. The operator must set `model.default`.", it)
	case llm.Policy:
		return p.T("%s declined this for its content. Ask in other words, or start over with `/new`.", it)
	}
	return p.T("%s refused the request. Send it again; if it stays, the operator finds the reason in the log.", it)
}

// trouble names in a word or two why a model does not answer properly.
func trouble(p words.Printer, c llm.Class) string {
	switch c {
	case llm.Server:
		return p.T("server error")
	case llm.Timeout:
		return p.T("timeout")
	case llm.Network:
		return p.T("network")
	}
	return p.T("garbage")
}

func in(p words.Printer, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return p.T(" (about %v)", d.Round(time.Second))
}
