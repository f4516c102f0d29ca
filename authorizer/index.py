from __future__ import annotations
from typing import Final
from records.acl import *
from authorizer.masks import *
from authorizer.buckets import *
from authorizer.name_table import NameTable
from authorizer.prefixes import Prefixes
from records.principal import WILDCARD_PRINCIPAL
T=8
class AclIndex:
    __slots__=("image","resources","principals","everyone")
    def __init__(self,image,resources,principals,everyone):
        self.image=image; self.resources=resources; self.principals=principals; self.everyone=everyone

def build(image):
    names=[{} for _ in range(2*T)]
    leaves={}
    for acl in image:
        r=acl.record
        t=r.resource_type
        slot=2*t if 0<=t<T else 0
        if r.pattern_type!=3: slot+=1
        name=r.resource_name
        by_name=names[slot]
        b=by_name.get(name)
        if b is None: by_name[name]=[acl]
        else: b.append(acl)
        p=r.principal
        mine=leaves.get(p)
        if mine is None:
            mine=leaves[p]=[None]*(2*T)
        d=mine[slot]
        if d is None: d=mine[slot]={}
        m=acl_mask(r.operation,r.permission_type)
        leaf=d.get(name)
        if leaf is None and r.host=="*": d[name]=m
        else: d[name]=add_to_leaf(leaf,r.host,m)
    return names,leaves

def finish(image,names,leaves):
    resources=tuple(table({n:bucket_of(v) for n,v in names[2*t].items()},{n:bucket_of(v) for n,v in names[2*t+1].items()}) for t in range(T))
    principals={}
    for p,mine in leaves.items():
        a,c,n=p.partition(":")
        if not c: continue
        principals.setdefault(a,{})[n]=tuple(table(mine[2*t] or {},mine[2*t+1]) if mine[2*t] or mine[2*t+1] else None for t in range(T))
    return AclIndex(image,resources,principals,principals.get("User",{}).get("*",(None,)*T))
def table(l,p): return NameTable(l,Prefixes.of(p) if p else None)
