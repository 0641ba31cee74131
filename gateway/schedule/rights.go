package schedule

import (
	"errors"

	"hermesd/gateway/access"
)

// CheckRights checks that j has nothing that its creator, whose level is given, may not
// have: only the job of an owner may have a script, a workdir and targets other than
// "origin" and "local". The error is ErrInvalid and joins all problems.
func CheckRights(j Job, creator access.Level) error {
	if creator >= access.Owner {
		return nil
	}
	var problems []error
	if j.Script != "" || j.ScriptOnly {
		problems = append(problems, invalid("only the job of an owner may run a script; leave out script and no_agent"))
	}
	if j.Workdir != "" {
		problems = append(problems, invalid("only the job of an owner may have a workdir; leave it out"))
	}
	for _, t := range j.Deliver {
		if t != "origin" && t != "local" {
			problems = append(problems, invalid(`only the job of an owner may deliver to %q; use "origin" or "local"`, t))
		}
	}
	return errors.Join(problems...)
}

// checkRights is CheckRights with the current level of the creator.
func (r Validator) checkRights(j Job) error {
	if r.Level == nil {
		return CheckRights(j, j.Creator.Level)
	}
	return CheckRights(j, r.Level(j))
}

// CanRead reports whether the output of a job of creator may become input of reader:
// if they are the same, or both are owners.
func CanRead(reader, creator access.Principal) bool {
	return isSame(reader, creator) || reader.Level == access.Owner && creator.Level == access.Owner
}

// isSame compares without the level, which changes.
func isSame(x, y access.Principal) bool { return x.Platform == y.Platform && x.ID == y.ID }

// canChange reports whether v may change j, which it can see: the runs of j have at most
// the level that its creator had, so v needs that level or is the creator.
func (v Caller) canChange(j Job) bool {
	return v.Principal.Level >= j.Creator.Level || isSame(v.Principal, j.Creator)
}
