package active_test

import (
	"context"
	"errors"
	"testing"

	"hermesd/gateway/active"
	"hermesd/gateway/inbox"
)

func TestAnInterruptionEndsOnlyTheRunOfOlderEntries(t *testing.T) {
	runs := active.NewRuns()
	ctx, max, end := runs.Begin(t.Context(), "l")
	if max != 0 {
		t.Errorf("the run may claim %d entries, want no limit", max)
	}
	runs.Add("l", inbox.Entry{ID: 5}, inbox.Entry{ID: 6})
	runs.Supersede("other", 9)
	runs.Supersede("l", 4) // the run was started by a later entry
	runs.Supersede("l", 6) // the run has the entry
	if ctx.Err() != nil {
		t.Fatalf("interrupted: %v", context.Cause(ctx))
	}
	runs.Supersede("l", 7)
	var newer active.SupersededError
	if !errors.As(context.Cause(ctx), &newer) || newer.Entry != 7 {
		t.Errorf("cause %v, want entry 7", context.Cause(ctx))
	}
	end()
	if runs.Stop("l", 8, "/stop") {
		t.Error("a run that has ended was stopped")
	}
}

func TestAStopBeforeTheEntriesAreKnownEndsTheRun(t *testing.T) {
	runs := active.NewRuns()
	ctx, _, end := runs.Begin(t.Context(), "l")
	defer end()
	if !runs.Stop("l", 3, "/stop") || ctx.Err() != nil {
		t.Fatalf("before the entries are known: %v", context.Cause(ctx))
	}
	runs.Add("l", inbox.Entry{ID: 2})
	var stopped active.StoppedError
	if !errors.As(context.Cause(ctx), &stopped) || stopped.Person != "/stop" {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	if runs.StopCause("l", false) == nil {
		t.Error("the run has no cause of its stop")
	}
}

// TestALateStopEndsTheNextRun stops a run that gives its entries back: its next run must
// end, and may have no other entries.
func TestALateStopEndsTheNextRun(t *testing.T) {
	runs := active.NewRuns()
	_, _, end := runs.Begin(t.Context(), "l")
	runs.Add("l", inbox.Entry{ID: 1}, inbox.Entry{ID: 2})
	runs.Supersede("l", 3)
	if cause := runs.StopCause("l", true); cause != nil {
		t.Fatalf("stopped by %v", cause)
	}
	runs.Stop("l", 4, "/stop")
	end()
	ctx, max, end := runs.Begin(t.Context(), "l")
	runs.Add("l", inbox.Entry{ID: 1}, inbox.Entry{ID: 2})
	if max != 2 || ctx.Err() == nil {
		t.Errorf("the next run may claim %d entries, want 2; its cause is %v", max, context.Cause(ctx))
	}
	end()
	if ctx, max, end = runs.Begin(t.Context(), "l"); max != 0 || ctx.Err() != nil {
		t.Error("a late stop ends two runs")
	}
	end()
	runs.StopNext("l", 9, "/stop", 1)
	ctx, max, end = runs.Begin(t.Context(), "l")
	defer end()
	runs.Add("l", inbox.Entry{ID: 8})
	if max != 1 || ctx.Err() == nil {
		t.Errorf("after StopNext the run may claim %d entries, its cause is %v", max, context.Cause(ctx))
	}
}
