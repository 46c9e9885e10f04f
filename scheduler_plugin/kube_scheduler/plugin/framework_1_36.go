//go:build !k8s_1_34

package main

import fwk "k8s.io/kube-scheduler/framework"

const minor = "36"

type (
	anyPlugin           = fwk.Plugin
	handle              = fwk.Handle
	preFilterPlugin     = fwk.PreFilterPlugin
	filterPlugin        = fwk.FilterPlugin
	postFilterPlugin    = fwk.PostFilterPlugin
	scorePlugin         = fwk.ScorePlugin
	reservePlugin       = fwk.ReservePlugin
	postBindPlugin      = fwk.PostBindPlugin
	enqueueExtensions   = fwk.EnqueueExtensions
	preFilterExtensions = fwk.PreFilterExtensions
	preFilterResult     = fwk.PreFilterResult
	postFilterResult    = fwk.PostFilterResult
	nodeStatuses        = fwk.NodeToStatusReader
	scoreExtensions     = fwk.ScoreExtensions
)
