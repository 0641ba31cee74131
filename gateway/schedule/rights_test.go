package schedule_test

import (
	"errors"
	"testing"

	"hermesd/gateway/access"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
)

func TestCheckRights(t *testing.T) {
	for name, tt := range map[string]struct {
		job     schedule.Job
		allowed bool // for those who are no owners
	}{
		"origin and local": {schedule.Job{Deliver: []string{"origin", "local"}}, true},
		"a platform":       {schedule.Job{Deliver: []string{"telegram"}}, false},
		"a chat":           {schedule.Job{Deliver: []string{"origin", "telegram:1"}}, false},
		"all":              {schedule.Job{Deliver: []string{"all"}}, false},
		"another spelling": {schedule.Job{Deliver: []string{"Origin"}}, false},
		"a script":         {schedule.Job{Deliver: []string{"local"}, Script: "a.sh"}, false},
		"no_agent":         {schedule.Job{Deliver: []string{"local"}, ScriptOnly: true}, false},
		"a workdir":        {schedule.Job{Deliver: []string{"local"}, Workdir: "/srv"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, level := range []access.Level{access.Nobody, access.Guest, access.Member, access.Owner} {
				err := schedule.CheckRights(tt.job, level)
				if want := tt.allowed || level == access.Owner; (err == nil) != want || err != nil && !errors.Is(err, schedule.ErrInvalid) {
					t.Errorf("%s: %v", level, err)
				}
			}
		})
	}
}

func TestCanRead(t *testing.T) {
	principal := func(p chat.Platform, id string, l access.Level) access.Principal {
		return access.Principal{Platform: p, ID: id, Level: l}
	}
	ann, bob := principal(chat.Telegram, "1", access.Owner), principal(chat.Telegram, "2", access.Member)
	for _, tt := range []struct {
		name            string
		reader, creator access.Principal
		want            bool
	}{
		{"oneself", bob, bob, true},
		{"oneself, of another level then", bob, principal(chat.Telegram, "2", access.Guest), true},
		{"another member", bob, principal(chat.Telegram, "3", access.Member), false},
		{"the same id on another platform", bob, principal(chat.Discord, "2", access.Member), false},
		{"a member of an owner", bob, ann, false},
		{"an owner of a member", ann, bob, false},
		{"an owner of the operator", ann, schedule.Operator(), true},
		{"a member of the operator", bob, schedule.Operator(), false},
	} {
		if got := schedule.CanRead(tt.reader, tt.creator); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
