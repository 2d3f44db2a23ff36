"""The phrases that claim success and the phrases that admit a failure, as data for each language.

All are RE2 patterns, which take linear time. They see one sentence at a time: lower case, without accents and punctuation,
with a space around each word, between `<` and `>`. Of Japanese ones all spaces are taken out.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The phrases of one language; each tuple lists alternatives.

    `harmless` phrases are removed first: "no problem" admits nothing. `admits` names a failure for certain; `hints` do so
    only in an answer without a claim, and make one with a claim uncertain; `conditions`, like questions, leave a claim as it is.
    `claims` say that something was done, unless one of `hedges` is in the sentence.
    A clause with one of `verbs` that is neither a claim nor one of `details` makes a claim uncertain: it may be the admission.
    `common` words show that a sentence is of this language.
    """

    harmless: tuple[str, ...] = ()
    admits: tuple[str, ...]
    hints: tuple[str, ...]
    conditions: tuple[str, ...]
    claims: tuple[str, ...]
    hedges: tuple[str, ...]
    verbs: tuple[str, ...]
    details: tuple[str, ...] = ("<>",)
    common: tuple[str, ...] = ()


_DONE = (
    "charged|billed|booked|confirmed|verified|rebased|bumped|regenerated|rebuilt|sent|emailed|mailed|issued|refunded|processed|completed|finished|scheduled|"
    "rescheduled|updated|changed|modified|saved|stored|created|deleted|removed|added|inserted|deployed|restarted|rebooted|"
    "merged|pushed|committed|opened|reopened|resolved|fixed|corrected|submitted|filed|registered|enrolled|placed|"
    "ordered|purchased|bought|paid|transferred|moved|exchanged|replaced|upgraded|downgraded|reset|renamed|uploaded|"
    "published|posted|shipped|dispatched|installed|configured|enabled|activated|deactivated|granted|assigned|"
    "applied|switched|reserved|credited|debited|reimbursed|extended|renewed|redeemed|forwarded|shared|invited|notified|"
    "archived|restored|subscribed|unsubscribed|migrated|provisioned|scaled|launched|started|executed|performed|"
    "implemented|written|made|arranged|sorted|settled|waived|unlocked|patched|synced|backed up|set up|rolled out|"
    "copied|imported|exported|tagged|labell?ed|recorded|adjusted|swapped|generated|delivered|redirected"
)
# Of what is so now: other such words report the state of the world ("the shop is closed").
_IS_DONE = (
    "confirmed|sent|placed|ordered|paid|processed|deployed|merged|saved|updated|charged|activated|deleted|"
    "removed|registered|resolved|fixed|submitted|refunded|complete|completed|finished|done|all set|live|up and running|"
    "on its way|on the way|sorted|taken care of|in place|good to go|ready to go|now on your \\S+|now in your \\S+|paid for|"
    "scheduled for you|set up|upgraded|applied|switched (?:on|off)|turned (?:on|off)"
)
# Failures bring about these too: what was cancelled has to be what people cancel.
_CANCELLED = "orders?|subscriptions?|bookings?|reservations?|appointments?|memberships?|meetings?|trips?|events?|plan|policy|your (?:\\S+ )?flights?"
_ENDED = (
    f"(?:{_CANCELLED}) (?:\\S+ ){{0,6}}(?:(?:has|have) (?:now |successfully )?been|was|were|is|are) (?:now |successfully )?cancell?ed|"
    f"< (?:the |your )?(?:{_CANCELLED}) (?:\\S+ ){{0,2}}(?:now |successfully )?cancell?ed"
    "(?: successfully)? >|"
    "(?:tickets?|issues?|incidents?|cases?|accounts?|pull request|pr|\\S*\\d+) (?:has|have|was|were) (?:now )?(?:been )?closed|"
    "(?:tables?|schemas?|columns?|index|indexes|keys?|tokens?) (?:has|have|was|were) (?:been )?(?:dropped|revoked|truncated)"
)
_BY_ME = (
    f"{_DONE}|cancell?ed|closed|stopped|revoked|dropped|truncated|logged|bumped|sold|told|blocked|frozen|froze|locked|turned|switched|given|gave|put|taken care|took care|wrote|set|built|returned|"
    "rebooked|went ahead|retried and|signed you|cleared|disabled|muted|ran the"
)
_ADVERB = "(?:(?:now|just|also|successfully|all|both|officially|fully|then|finally|safely|gone ahead and|went ahead and|already now) )"
_THING = (
    "reminder|payment|order|e?mail|message|booking|reservation|alarm|meeting|event|changes?|refund|ticket|file|task|"
    "appointment|transfer|flight|room|table|address|password|profile|subscription|timer|update|transaction|deployment|invitation|invite|note|record|account|card"
)
_TROUBLE = "bugs?|errors?|issues?|problems?|failures?|failing|broken|typos?|crash(?:es)?|conflicts?|timeouts?"

ENGLISH = Language(
    harmless=(
        "(?:no (?:problem|worries)|not a problem|(?:don't|do not|not to) worry)",
        "(?:don't|do not) (?:hesitate|forget) .*",
        "feel free to .*",
        "(?:if|should) (?:you|there|anything) (?:\\S+ ){0,5}(?:any|anything|questions?|help|assistance|else|further) .*",
        "(?:no|nothing) (?:further|other|else|more|action) (?:\\S+ ){0,4}(?:needed|required|necessary|do)",
        "(?:don't|do not|won't) (?:need|have) to do (?:anything|a thing)(?: else| more| further)?",
        f"without (?:any |a |further )?(?:\\S+ )?(?:{_TROUBLE}|hitch|trouble|glitch)",
        f"(?:no|0|zero) (?:\\S+ )?(?:{_TROUBLE}|warnings)",
        f"(?:pull|merge) requests?|(?:fix(?:ed|es)?|resolved?|corrected|solved|addressed|handled|handles) (?:\\S+ ){{0,3}}(?:{_TROUBLE})",
        "(?:opened|closed|created|filed|assigned|labelled|labeled|updated|reopened) (?:\\S+ ){0,2}(?:issue|problem report)",
        f"issue (?:\\d+ )?(?:has been|was|is) (?:now )?(?:{_DONE})",
        "(?:error|exception) handl\\S*|(?:thanks|thank you) again",
        "(?:is there )?(?:anything else|something else) .*|in full|full (?:refund|amount|price|name)|(?:thanks|thank you) for (?:waiting|asking|(?:your|the|being) \\S+)|(?:can|may|could) i (?:else )?(?:help|assist|do) .*",
        "(?:renewed|extended|valid) until .*",
        "(?:no later than|in no time|not only|once again|again soon)",
        "(?:at )?no (?:extra|additional|hidden) \\S+|no longer needed|if (?:you|it|this|that) still .*",
    ),
    admits=(
        "(?:could|can|was|were|is|are|has|have|had|did|does|would) not",
        "(?:could|ca|was|were|is|are|has|have|had|did|does|would)n't",
        "cannot|unable|not (?:able|allowed|possible|available|supported|found|permitted|responding|yet|complete)",
        "(?:don't|do not) (?:have|see|know|support|allow|accept)",
        "fail(?:s|ed|ing|ure|ures)?|unsuccessful(?:ly)?|errors?|wrong|problems?|issues?|trouble|difficult(?:y|ies)|\\S*error|\\S*exception",
        "sorry|apolog\\S*|unfortunately|regret\\S*|i'm afraid|i am afraid|sadly|oops|alas",
        "(?:return\\S*|responded|responding|got|status) (?:\\S+ )?(?:\\S+ )?[45]\\d\\d|unavailable|no longer|is down|are down|down for|offline|timed out|timeout|times out",
        "reject\\S*|declin\\S*|refus\\S*|den(?:y|ied|ies)|bounced?|abort\\S*|expired|invalid|insufficient|incorrect",
        "missing|incomplete|impossible|conflicts?|crash\\S*|stuck|pending|rolled (?:\\S+ )?back|skipped|interrupted|sold out",
        "try again|retry|retrying|i tried|we tried|attempt\\S*|gave up|give up|the outage|glitch",
        "nothing (?:was|has|is|could)|none|neither|never|except|apart from|other than|exceed(?:s|ed)|read only",
        "only (?:\\S+ )?(?:\\S+ )?of (?:the|your)|only partially|partially|partly|halfway",
        "there(?:'s| is| are) no|no (?:such|flights?|records?|account|access|availability|seats?|money|rows|results|match)",
        "wish i could|snag|hiccup|(?:still )?being (?:processed|reviewed|checked)|as an ai|transferr?(?:ed|ing)? you|connect(?:ed|ing)? you|escalat\\S*|hand (?:\\S+ )?over|"
        "handed (?:\\S+ )?over|human agent|human representative|live agent|a human|is locked|is disabled",
    ),
    hints=(
        "but|however|although|though|yet|still|again|another|instead|alternative\\S*|must|requir\\S*|appears? (?:to|that)|it appears|seems?|only",
        "not|no|don't|won't|without|nothing|nobody|manually|(?:needs?|requires?|awaits?|awaiting|your|\\S+'s) approval|approval (?:from|first)|waiting|wait|until|unless|looks like|confusion|mixup",
        "misunderstanding|limitation|limit|(?:is|was|been|got|are|were) blocked|taken >|colleague|supervisor|specialists?|representative|technician|"
        "administrator|someone from|support team at|protected|error prone|remains?|remaining|cut off|so far|almost",
        "(?:one|two|three|four|five|some|half|part|parts|most|many|few|\\d+) (?:\\S+ )?of (?:the|your|my|our|\\d+)|part of|the (?:others?|rest|second|third)|later",
        "(?:forwarded|sent|passed|referred|routed|assigned) to (?:a|an|the|our) (?:\\S+ ){0,2}(?:department|team|supervisor|manager|support|desk|"
        "agents?|staff|office|experts?)|(?:opened|created|filed|saved|made|added|left|submitted|sent|noted) (?:a|an|the|your) "
        "(?:support |internal |formal )?(?:requests?|case|investigation|notes?|inquiry|wish)",
        # A sign or value that denies the claim beside it.
        "false|null|nil|zero|hardly|barely|scarcely|void|limbo|on ice|hung|hangs|hanging|broke|[^ 0-9]+ 0 (?:0+ )?[^ 0-9]\\S*|negative",
        "(?:code|outcome|status|answer\\S*|response|result) (?:\\S+ ){0,2}[45]\\d\\d|drafts?|callback|outages?|(?:a|in|on) test|sandbox|simulat\\S*|mock\\S*|dry run|dummy|(?:sent|submitted|made|put|passed|moved|logged|forwarded|raised|filed) (?:\\S+ ){0,3}requests?|follow up|to (?:a|an|the|our) (?:\\S+ ){0,2}(?:desk|department|helpdesk|office|engineers?)|"
        "(?:from|for|to|by|with|notified|informed|alerted|told|asked) our (?:\\S+ ){0,2}(?:team|engineers?|staff|support|experts?|developers?|desk)",
        "contact(?:ing)? (?:the|your|them|us|our)|recommend|suggest|full|out of|unknown|lacks?|on hold|queued?|review\\S*|too (?:long|many|large|late|much|few)|mistake|twice|by hand|"
        "kill(?:ed)?|revers\\S*|quarantine|flagged|wait(?:ing )?list|belongs?|deadline|in use|yet to be|has to|needs?|needed|"
        "reached|unreachable|demand|come back|misspelled|stopped|half|stays?|left it|so (?:that )?(?:you|we|someone|they) can|"
        "delay\\S*|slow|lost|by someone|double|conflict\\S*|logged out|sign in|inactivity|took (?:too )?long|deadlock|lag",
        "please (?:\\S+ )?(?:provide|give|tell|share|confirm|choose|select|enter|contact|call|try|verify|specify|visit|log|"
        "sign|let me know (?:which|what|how))",
        "(?:could|can|would|will) you (?:\\S+ )?(?:\\S+ )?(?:give|provide|tell|share|confirm|check|specify|clarify|verify|send)",
        "i (?:\\S+ )?need|i'll need|before i can|you (?:\\S+ )?(?:need|have) to|(?:should|shall) i|want me to|like me to",
    ),
    conditions=("once (?:the|your|this|that|it|we|i|you)|as soon as|if the|if your|if (?:it|that) (?:goes|works)",),
    claims=(
        f"(?:i|we|i've|we've) (?:have )?{_ADVERB}*(?:{_BY_ME})",
        f"(?:i|we|i've|we've|<) (?:have )?{_ADVERB}*successfully (?:{_BY_ME})",
        f"(?:have|has|had) {_ADVERB}*been {_ADVERB}*(?:{_DONE})",
        f"(?:was|were|got) {_ADVERB}*(?:{_DONE})",
        f"(?:is|are|it's|that's|they're|you're|everything's|all's) {_ADVERB}*(?:{_IS_DONE})",
        _ENDED,
        # "The room is booked" may be the reason for a failure.
        f"(?:your|you're|it's|that's|my) (?:.* )?(?:is|are|you're|it's|that's) {_ADVERB}*(?:booked|reserved|scheduled)|(?:you're|it's|that's) {_ADVERB}*(?:booked|reserved)",
        f"(?:is|are|it's|you're) now {_ADVERB}*(?:{_DONE}|on|in|active|enabled|off|back to normal)",
        "(?:is|are) (?:set(?: (?:to|for|up))?|back to normal|in your (?:inbox|mailbox|account|cart|calendar))",
        "(?:all|that's) (?:set|done|booked|sorted|taken care of|good|yours|finished|complete)|went through|good to go",
        "(?:completed|finished|worked|succeeded|ran|went) (?:\\S+ )?(?:successfully|fine|perfectly|smoothly|without)|succeeded",
        f"successfully (?:{_DONE})|(?:{_DONE}) successfully",
        "consider it (?:done|booked|sent|handled)|congratulations|mission accomplished",
        "< cancell?ed >",
        f"< (?:great |ok |okay |perfect |sure )?(?:all )?(?:done|success|finished|sorted|{_DONE}) .*",
        f"< (?:the |your |new )?(?:{_THING}) (?:{_DONE}|set|received|complete|done|successful)",
        f"(?:{_THING}) (?:has )?(?:completed|finished|succeeded|is complete|was successful|is successful)",
        "(?:is|are) on (?:its|their) way|(?:are|is) (?:all )?yours|is gone|now pass(?:es)?|\\S+ (?:finished|completed|succeeded) >",
    ),
    hedges=(
        "while|during|fully booked|booked (?:out|up|solid)|(?:at|for|on|during) (?:that|this|those|these|your|the requested|all|any) (?:times?|nights?|days?|dates?|slots?|period|hours?|weekend)|"
        f"(?:was|were|been) (?:{_DONE}) (?:on|in|last) (?:january|february|march|april|may|june|july|august|september|october|november|december|week|month|year|\\d+|\\S+day)|(?:(?:all|every|each) (?:the |your |of the )?\\S+|preferred \\S+|dates?|slots?|seats) (?:on \\S+ |for \\S+ )?(?:is|are|was|were|has|have) (?:been )?(?:booked|reserved|sold|taken)",
        "if|once|when|whenever|after|before|until|unless|as soon as|as long as|provided|assuming|whether|how|why|because",
        "already|previously|originally|earlier|initially|yesterday|ago|so that|in case|due to|since|by (?:the|a|an|others|someone|another)|(?:(?:with|to) (?:the|your) old|(?:the|your|my|its) (?:wrong|previous|former))|according to|in order|back to (?:us|the|me|sender)|sent back|came back|from sale|"
        "(?:was|were) (?:placed|shipped|delivered|ordered|purchased|booked|made|paid|created|opened|received) on",
        "my|(?:should|would|could|might|may|must|to|needs?|will) (?:\\S+ )?(?:have|be|get) (?:\\S+ )?"
        f"(?:been )?(?:{_DONE}|done|set)",
        "[^ <]+ (?:that|which|who) (?:was|were|is|are|has been|have been|had been|you|they|he|she|we|i)",
        "summary below|draft|overview|outline|below|following|drafts?|status|shows?|says|said|states|reads|indicates|appears",
        "(?:is|are|was|were) scheduled to|expected to|supposed to|going to|about to|let me|i'll|i will|we'll|try|trying|make sure|ensure",
        "you (?:have |had )?(?:\\S+ )?(?:booked|placed|made|ordered|sent|paid|purchased|bought|requested|opened)",
    ),
    verbs=(
        "is|are|was|were|has|have|had|did|does|do|it's|that's|there's|i've|we've|got|took|gave|came|went|said|told|left|kept|ran|"
        "became|began|\\S+ed",
    ),
    details=(
        f"< (?:{_BY_ME}) (?:your|the|a|an|it|them) .*",
        "here(?:'s| is| are) .*|(?:is|are|it's) (?:now )?(?:up >|up again|scheduled for|booked for|set)(?: .*)?|gone ahead|(?:as|that|which) you .*|< (?:thanks?|thank you|enjoy|have a|have an|have fun) .*",
        "(?:total|balance|number|reference|receipt|seat|pnr|code|address|details?|id|price|fare) (?:\\S+ )?(?:\\S+ )?(?:is|are|was)",
        "(?:detailed|included|attached|attendees|based|combined|limited|estimated|related|updated)|(?:will|can|should|may) .*",
    ),
    common=(
        "the|you|your|you're|been|this|that|with|i've|we've|is|was|and|has|have|are|it|of|to|we|a|an|for|in|on|my|our|us|"
        "me|will|can|from|by|be|its|it's|as|or|if|so|there|here|all|any|now|up|out|just|were|had|don't|not|feel|free|ask|"
        "please|let|know|within|days|business|card|credit|ending|order|email|flight|payment|back|using|today|tomorrow|new|"
        "more|each|which|what|when|than|into|about|after|before|per|would|should|they|them|their|he|she|his|her|get|use|need|"
        "help|also|then|these|those|no|do|does|how|next|last|first|one|two|three|both|same|total|time|questions|further",
    ),
)

GERMAN = Language(
    harmless=(
        "(?:sonst noch|noch etwas) .*|kein problem|keine sorge|ohne (?:probleme|fehler)|(?:fehler|bug|problem) (?:\\S+ ){0,3}(?:behoben|korrigiert)",
    ),
    admits=(
        "leider|fehler|fehlgeschlagen|problem\\S*|stoerung|storung|gescheitert|schiefgelaufen|schief|abgelehnt|verweigert|unmoglich",
        "nicht|kein\\S*|weder|ohne erfolg|entschuldig\\S*|tut mir leid|bedau\\S*|gesperrt|ausgefallen|abgebrochen|abgelaufen",
        "ungultig\\S*|fehlt|fehlen|ausgebucht|ausverkauft|nur (?:\\S+ )?der|bis auf|ausser|noch einmal versuchen|verbinde sie|"
        "mitarbeiter\\S*|kundendienst|kundenservice|steht noch aus|konnte\\S* .* nicht|versucht",
    ),
    hints=(
        "anfrage|(?:an das|ans|unser) team|weitergeleitet|warteliste|abgesagt|abgewiesen|aber|jedoch|allerdings|obwohl|doch|noch|erneut|stattdessen|muss\\S*|mussen|bitte (?:\\S+ )?(?:\\S+ )?(?:nennen|geben|"
        "wenden|wahlen|bestatigen|kontaktieren|versuchen|rufen)|konnen sie|konntest du|kannst du|soll ich|mochten sie",
    ),
    conditions=("sobald|sofern",),
    claims=(
        "(?:wurde|wurden|ist|sind) .*(?:veranlasst|belastet|bestatigt|gesendet|verschickt|versendet|storniert|abgeschlossen|"
        "geandert|gespeichert|reserviert|ausgefuhrt|gebucht|geschlossen|zuruckgesetzt|behoben|ubernommen|erledigt|erstellt|"
        "geloscht|aktualisiert|hinzugefugt|uberwiesen|bezahlt|erstattet|verschoben|angelegt|eingerichtet|bestellt|"
        "aktiviert|gekundigt|eingetragen|entfernt|freigegeben|installiert|fertig|unterwegs|umgebucht|erfolgreich)",
        "(?:ich|wir|habe|haben) .*(?:gesendet|geschickt|verschickt|geandert|storniert|gebucht|zuruckgesetzt|behoben|erstellt|"
        "geloscht|aktualisiert|hinzugefugt|uberwiesen|bezahlt|erstattet|verschoben|angelegt|reserviert|gespeichert|"
        "eingerichtet|bestellt|aktiviert|gekundigt|eingetragen|entfernt|installiert|bestatigt|veranlasst|erledigt|belastet|abgebucht)",
        "< (?:erledigt|fertig|geschafft|gebucht|bestatigt|alles (?:klar|erledigt)) .*|steht jetzt (?:in|im) .*|hat geklappt|(?:war|waren) erfolgreich",
    ),
    hedges=(
        "komplett|vollstandig|alle (?:platze|sitze|zimmer|tische|termine|fluge)|wenn|falls|sobald|bevor|nachdem|sofern|wird|werden|wurde gern|bereits|schon|konnte|konnten|sollte|ob|weil|von (?:der|dem|einem|einer)|vom|durch|"
        "alles klar >",
    ),
    verbs=("ist|sind|war|waren|hat|haben|habe|wurde|wurden|kam|kann|konnte|bleibt|bleiben",),
    common=(
        "der|die|das|und|ist|ich|sie|ihr|ihre|ihren|ihrem|ihnen|wurde|wurden|habe|wir|haben|in|im|den|dem|ein|eine|an|am|fur|mit|"
        "auf|zu|sind|mir|bitte|kann|konnen|sonst|noch|es|etwas|du|dein|deine|steht|jetzt|nicht|von|bei",
    ),
)

FRENCH = Language(
    harmless=(
        "autre chose .*|pas de (?:probleme|souci)|sans (?:probleme|erreur|souci)|n'hesitez pas .*|"
        "corrige (?:\\S+ ){0,2}(?:erreur|bogue|bug|probleme)",
    ),
    admits=(
        "malheureusement|pas|impossible|echoue|echec|echoué|erreur|probleme\\S*|desole\\S*|regret\\S*|excus\\S*|refus\\S*|rejet\\S*",
        "indisponible|bloque\\S*|expire\\S*|invalide|manque\\S*|incomplet\\S*|aucun\\S*|ni|jamais|plus disponible|complet|sauf|seuls?|"
        "seules?|en panne|reessayer|n'est plus|essaye|en attente|conseiller|mets en relation|service client|agent humain",
    ),
    hints=(
        "demande|equipe|transmis\\S*|liste d'attente|mais|cependant|toutefois|pourtant|bien que|encore|nouveau|plutot|doit|devez|veuillez|pouvez vous|pourriez vous|"
        "peux tu|souhaitez vous|voulez vous|dois je|contactez|appelez|il faut|merci de",
    ),
    conditions=("des que|une fois que",),
    claims=(
        "(?:j'ai|nous avons|ai|on a) (?:bien )?(?:envoye|annule|mis|corrige|pousse|ajoute|modifie|change|supprime|cree|reserve|"
        "confirme|enregistre|paye|rembourse|transfere|effectue|debite|planifie|reinitialise|active|ferme|commande|deplace|"
        "programme|deploye|publie|installe|termine)\\S*",
        "(?:a|ont|est|sont) (?:bien )?(?:ete )?(?:bien )?(?:maintenant )?(?:emis|emise|debitee?|confirmee?s?|ajoutee?s?|terminee?s?|"
        "enregistree?s?|effectuee?s?|reservee?s?|fermee?s?|reinitialisee?s?|annulee?s?|envoyee?s?|modifiee?s?|mise? a jour|"
        "supprimee?s?|creee?s?|payee?s?|remboursee?s?|transferee?s?|planifiee?s?|activee?s?|commandee?s?|changee?s?|"
        "deployee?s?|publiee?s?|installee?s?|deplacee?s?|resolue?s?|traitee?s?|validee?s?|en route)",
        "(?:c'est|tout est) (?:fait|regle|bon|pret|confirme|reserve|envoye|en ordre)|avec succes|< (?:termine|fait|reserve) .*",
    ),
    hedges=(
        "entierement|(?:tous|toutes) (?:les|vos)|si|lorsque|quand|des que|une fois|avant|apres|deja|par (?:le|la|les|un|une)|par l'\\S+|sera|seront|serait|aurait|en raison|parce|afin|car|puisque|comme|pendant",
    ),
    verbs=("est|sont|etait|ont|avons|c'est|j'ai|reste|restent",),
    common=(
        "le|la|les|un|une|des|et|est|a|votre|vos|vous|j'ai|nous|avons|de|du|en|dans|pour|ete|au|avec|ce|c'est|je|il|sur|par|"
        "ne|pas|mon|ma|autre|sont|bien|que|qui",
    ),
)

# Words of success only: other participles report what went wrong ("interrumpido", "perdido").
_HECHO = (
    "(?:cobrad|cargad|pagad|reservad|confirmad|enviad|mandad|cancelad|actualizad|cambiad|modificad|guardad|cread|eliminad|borrad|anadid|agregad|corregid|emitid|"
    "realizad|procesad|completad|efectuad|reembolsad|transferid|programad|agendad|reprogramad|activad|desactivad|registrad|restablecid|movid|publicad|desplegad|"
    "instalad|comprad|asignad|aplicad|renovad|compartid|subid|importad|exportad|ejecutad|solucionad|concluid|entregad|desbloquead|facturad|abonad|depositad|cerrad|"
    "debitad|reiniciad|configurad|fusionad)[oa]s?"
)
_FEITO = (
    "(?:cobrad|pag|reservad|confirmad|enviad|cancelad|atualizad|alterad|modificad|salv|guardad|criad|excluid|removid|apagad|adicionad|incluid|corrigid|emitid|"
    "realizad|processad|completad|concluid|efetuad|reembolsad|transferid|agendad|reagendad|remarcad|marcad|ativad|desativad|registrad|redefinid|movid|"
    "publicad|implantad|instalad|comprad|atribuid|aplicad|renovad|compartilhad|importad|exportad|executad|resolvid|entregue|desbloquead|faturad|depositad|fechad|"
    "debitad|reiniciad|configurad|feit|abert)[oa]?s?"
)

SPANISH = Language(
    harmless=(
        "(?:algo|alguna cosa) mas .*|en que mas .*|sin (?:problemas?|errores|inconvenientes?)|no (?:hay|es) (?:ningun )?problema|no dude .*|no te preocupes|"
        "(?:corregi|corregido|resuelto|solucione) (?:\\S+ ){0,2}(?:error|problema|fallo|bug)",
    ),
    admits=(
        "lamentablemente|desafortunadamente|por desgracia|lo siento|lament\\S*|disculp\\S*|perdon|error|errores|problemas?|fallo|"
        "fallado|fallaron|fallida|fallido|rechaz\\S*|denegad\\S*|imposible|bloquead\\S*|caducad\\S*|invalid\\S*|falta|agotad\\S*",
        "no (?:se|ha|han|he|hemos|fue|fueron|pude|pudo|pudimos|puedo|podemos|puede|esta|estan|es|hay|tengo|tiene|funcion\\S*|"
        "encontr\\S*|logr\\S*|consegu\\S*|me|le|lo|la|disponible|existe|responde|permite)|indisponible|fuera de servicio",
        "solo (?:\\S+ )?de|ningun\\S*|ni|nunca|nada|excepto|salvo (?:el|la|los|las|que|por)|intente\\S*|de nuevo mas tarde|pendiente|agente humano|"
        "atencion al cliente|le paso|te paso|le transfiero|un agente|un companero",
    ),
    hints=(
        "solicitud|equipo|lista de espera|caducado|pero|sin embargo|aunque|todavia|aun|otra vez|nuevo|debe|debes|tiene que|necesit\\S*|por favor|me puede|puede (?:darme|"
        "decirme|indicarme)|podria|quiere que|quieres que|desea que|contacte",
    ),
    conditions=("en cuanto|una vez que",),
    claims=(
        f"(?:ha|han) sido (?:{_HECHO})|se (?:ha|han) (?:{_HECHO})|(?:he|hemos) (?:{_HECHO})",
        "(?:he|hemos|ha sido|se ha|fue) (?:hecho|puesto|resuelto|escrito|abierto)|se completo|se (?:envio|realizo|guardo|proceso|cobro|reservo|actualizo|cancelo)",
        f"(?:fue|fueron) (?:{_HECHO})|con exito|exitosamente|< (?:listo|hecho|completado|reservado|confirmado) .*",
        "(?:esta|estan|queda|quedo) (?:ya )?(?:confirmad|reservad|cerrad|hech|list|enviad|cancelad|completad|pagad|guardad|"
        "actualizad|programad|activad|resuelt|en camino)[oa]?s?|todo listo",
        "(?:ya )?(?:cancele|envie|reserve|actualice|cambie|corregi|subi|anadi|agregue|elimine|borre|cree|pague|confirme|guarde|"
        "programe|transferi|active|cerre|reinicie|procese) (?:el|la|los|las|su|sus|tu|tus|un|una|\\d+) .*|cobre \\d+ .*",
    ),
    hedges=(
        "completamente|totalmente|(?:todos|todas) (?:los|las)|si|cuando|en cuanto|una vez|antes|despues|ya (?:habia|estaba)|por (?:el|la)|debido|porque|sera|seran|para que|habria",
    ),
    verbs=("esta|estan|fue|fueron|han|hay|tiene|hemos|queda|sigue|habia",),
    common=(
        "el|la|los|las|un|una|y|es|su|sus|tus|estan|se|ha|he|de|del|en|al|a|para|por|fue|esta|lo|con|que|te|tu|le|ya|mas|me|no|sido|han",
    ),
)

PORTUGUESE = Language(
    harmless=(
        "(?:algo|alguma coisa) mais .*|mais alguma coisa .*|sem (?:problemas?|erros)|(?:nao ha|nenhum) problema|nao hesite .*|nao se preocupe|"
        "(?:corrigi|corrigido|resolvi) (?:\\S+ ){0,2}(?:erro|problema|bug|falha)",
    ),
    admits=(
        "infelizmente|nao|desculp\\S*|lament\\S*|sinto muito|erro|erros|problemas?|falhou|falharam|falha|rejeitad\\S*|recusad\\S*|negad\\S*",
        "indisponivel|impossivel|bloquead\\S*|expir\\S*|invalid\\S*|falta|esgotad\\S*|nenhum\\S*|nem|nunca|exceto|fora do ar|pendente|"
        "(?:apenas|so|somente) (?:\\S+ )?d[oa]s|tente novamente|tentei|atendente|suporte|agente humano|transferir voce",
    ),
    hints=(
        "solicitacao|equipe|encaminhad[oa]s?|lista de espera|suspens[oa]|mas|porem|contudo|embora|ainda|outra vez|novamente|deve|precis\\S*|por favor|pode (?:me )?(?:informar|dar|dizer)|"
        "poderia|quer que|deseja que|gostaria que|contato",
    ),
    conditions=("assim que|uma vez que",),
    claims=(
        f"(?:foi|foram) (?:{_FEITO})",
        "com sucesso|< (?:pronto|feito|concluido|reservado|confirmado) .*|tudo (?:certo|pronto)",
        "(?:esta|estao|fica|ficou) (?:ja )?(?:confirmad|reservad|fechad|feit|pront|enviad|cancelad|concluid|pag|salv|"
        "atualizad|agendad|ativad|resolvid|a caminho)[oa]?s?",
        "(?:enviei|cancelei|atualizei|atualizamos|alterei|alteramos|corrigi|adicionei|removi|exclui|criei|paguei|confirmei|salvei|"
        "agendei|transferi|ativei|fechei|reservei|enviamos|cancelamos|reservamos|processei|cobrei|reiniciei|marquei) .*",
    ),
    hedges=(
        "completamente|totalmente|todo reservado|toda reservada|(?:todos|todas) (?:os|as)|se|quando|assim que|uma vez|antes|depois|ja (?:havia|estava|tinha)|pel[oa]|devido|porque|sera|serao|for|para que|teria",
    ),
    verbs=("esta|estao|foi|foram|tem|houve|ficou|continua|havia",),
    common=(
        "o|a|os|as|um|uma|e|seu|seus|sua|suas|estao|foi|esta|de|do|da|em|no|na|ao|para|por|com|que|voce|se|mais|me|nao|chegara|posso|dos|das",
    ),
)

JAPANESE = Language(
    harmless=("ほかに.*か|他に.*か|問題なく|エラーなく|(?:バグ|エラー|問題|不具合)を(?:修正|解決)",),
    admits=(
        "ませんで|ていません|できません|ません|なかった|ない(?:です|ため|よう)|失敗|エラー|問題|申し訳|すみません|残念|拒否|却下|不可|無効",
        "いただけません|利用できない|ブロック|期限切れ|満席|売り切れ|不足|だけ|のみ|障害|もう一度|再度|後ほど|担当者|お問い合わせ|オペレーター|保留|未完了",
    ),
    hints=(
        "チーム|キャンセル待ち|依頼|下書き|が、|しかし|ただし|ですが|けれど|まだ|代わりに|必要|ください|教えて|いただけますか|よろしいですか|でしょうか|ますか",
    ),
    conditions=("次第",),
    claims=(
        "(?:完了|確定|送信|送付|請求|キャンセル|追加|変更|保存|予約|クローズ|リセット|修正|コミット|更新|削除|作成|登録|返金|注文|発送|発行|設定|手配|処理|"
        "支払い|振込|移動|公開|デプロイ|再起動|有効化|解約|適用|転送|招待|通知|アップロード|マージ|実行|再設定|お支払い)"
        "(?:が|は|を)?(?:い?たしました|しました|されました|いたしました|済み(?:です|ました)|です)",
        "(?:完了|成功)(?:し|いた|です)|送りました|支払いました|払いました|取りました|入れました|直しました|消しました|行いました",
    ),
    hedges=("により|によって|次第|たら|れば|場合|と、|予定|すでに|既に|か(?:\\?|$)|\\?|とき|際|前に|後に|可能性",),
    verbs=("<>",),
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE)

# Forms of verbs in tool names that do not begin like the verb.
IRREGULAR = {"sent": "send", "paid": "pay", "bought": "buy", "wrote": "write", "made": "make", "built": "build"}
