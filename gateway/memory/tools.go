package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermesd/agent/memory/provider"
	"hermesd/gateway/access"
	"hermesd/internal/shorten"
)

const (
	recallTool   = "memory_recall"
	defaultLimit = 20 // items of memory_recall
	maxLimit     = 100
)

// recallDefinition is the tool that this package adds to those of a provider.
var recallDefinition = provider.Tool{
	Name:        recallTool,
	Description: "Searches long-term memory for a query, or shows further items of the last recall of this conversation from an offset on.",
	Schema:      json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"What to search for; omit it to continue the last recall"},"offset":{"type":"integer","minimum":0,"description":"Number of items to skip"},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Maximum number of items, 20 by default"}}}`),
}

// Tools returns the tools of the provider and memory_recall; none in a mode without tools.
func (s *Service) Tools() []provider.Tool {
	if s.off() || s.about().NoTools {
		return nil
	}
	return append(slices.Clone(s.about().Tools), recallDefinition)
}

// Call runs one of Tools in a turn. An error is for the model.
func (s *Service) Call(ctx context.Context, t Turn, tool string, input json.RawMessage) (string, error) {
	all := s.Tools()
	i := slices.IndexFunc(all, func(d provider.Tool) bool { return d.Name == tool })
	switch {
	case i < 0:
		return "", fmt.Errorf("there is no tool %q", tool)
	case !s.Allows(t) || all[i].Writes && !s.learns(t):
		return "", errors.New("long-term memory is not used in this conversation")
	case all[i].Owners && t.Level < access.Owner:
		return "", fmt.Errorf("only owners may use %s", tool)
	case tool == recallTool:
		return s.callRecall(ctx, t, input)
	}
	return s.call(ctx, t, all[i], input)
}

func (s *Service) call(ctx context.Context, t Turn, tool provider.Tool, input json.RawMessage) (string, error) {
	side := reads
	if tool.Writes || s.about().RecallAlone {
		side = writes
	}
	c, err := s.acquireTool(side)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	began := time.Now()
	result, err := c.provider.Call(ctx, s.Scope(t), tool.Name, input)
	if err := s.toolResult(ctx, c, side, began, err); err != nil {
		return "", err
	}
	return shorten.To(s.cleanResult(result), s.settings().MaxChars), nil
}

// acquireTool returns the client for a tool, or why none can be used now.
func (s *Service) acquireTool(side string) (*client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	guard := s.guard(side)
	if c := s.begin(guard); c != nil {
		return c, nil
	}
	wait := "soon"
	if d := time.Until(guard.until); d > 0 {
		wait = "in " + d.Round(time.Second).String()
	}
	return nil, fmt.Errorf("long-term memory (%s) does not answer: %w; it is asked again %s", s.about().Label, guard.cause, wait)
}

// toolResult records the result of a call of a tool and returns its error for the model.
func (s *Service) toolResult(ctx context.Context, c *client, side string, began time.Time, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // the turn was stopped
		s.release(c, side)
		return err
	}
	s.result(c, side, "tool", began, err)
	if err == nil {
		return nil
	}
	return errors.New(s.cleanResult(shorten.Line(err.Error(), 500)))
}

func (s *Service) callRecall(ctx context.Context, t Turn, input json.RawMessage) (string, error) {
	var in struct {
		Query         string
		Offset, Limit int
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("the input is not valid: %w", err)
	}
	if in.Limit <= 0 {
		in.Limit = defaultLimit
	}
	var left leftOut
	var list []string
	if in.Query = strings.TrimSpace(in.Query); in.Query != "" {
		c, err := s.acquireTool(reads)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		began := time.Now()
		items, err := c.provider.Recall(ctx, s.Scope(t), shorten.To(s.parts.Mask(in.Query), maxQuery))
		if err := s.toolResult(ctx, c, reads, began, err); err != nil {
			return "", err
		}
		list, left = s.clean(lines(items, ""))
		s.mu.Lock()
		s.talk(t.Record.ID).list = list
		s.mu.Unlock()
	} else {
		s.mu.Lock()
		if k := s.talks[string(t.Record.ID)]; k != nil {
			list = k.list
		}
		s.mu.Unlock()
	}
	from := min(max(in.Offset, 0), len(list))
	if text := s.page(list, from, min(in.Limit, maxLimit), left); text != "" {
		return strings.TrimSuffix(text, "\n"), nil
	}
	if from > 0 {
		return "There are no more items.", nil
	}
	return "Nothing was found.", nil
}
